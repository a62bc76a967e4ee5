// The file of a snapshot: lines, then a line with a MAC over all of them. Written and read piece by piece, so that a
// large one neither takes its size in memory nor, while it is synced, delays other users of the disk.
import { createHmac, type Hmac } from 'node:crypto'
import { closeSync, fdatasyncSync, fsyncSync, openSync, writeSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { sameText } from '../../lib/crypto/digest.ts'

const NEWLINE = 0x0a
/** 64 hex digits and the end of the line. */
const MAC_BYTES = 65
const READ_BYTES = 1024 * 1024
/** Bytes between two syncs: a sync of the log waits for no more than that. */
const SYNC_BYTES = 4 * 1024 * 1024

export class SnapshotWriter {
  readonly #file: number
  readonly #mac: Hmac
  #unsynced = 0

  /** The file must not be there yet. */
  constructor(path: string, macKey: Uint8Array) {
    this.#file = openSync(path, 'wx', 0o600)
    this.#mac = createHmac('sha256', macKey)
  }

  /** Without the end of the line. */
  line(text: string): void {
    const bytes = Buffer.from(`${text}\n`)
    this.#mac.update(bytes)
    this.#write(bytes)
  }

  /** The MAC, on the disk with all before it. */
  end(): void {
    this.#write(Buffer.from(`${this.#mac.digest('hex')}\n`))
    fsyncSync(this.#file)
  }

  close(): void {
    closeSync(this.#file)
  }

  #write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) at += writeSync(this.#file, bytes, at)
    this.#unsynced += bytes.length
    if (this.#unsynced < SYNC_BYTES) return
    fdatasyncSync(this.#file)
    this.#unsynced = 0
  }
}

/** Whether the file ends with a MAC of this key over all before it. */
export const isWhole = async (file: FileHandle, macKey: Uint8Array): Promise<boolean> => {
  const { size } = await file.stat()
  if (size <= MAC_BYTES) return false
  const mac = createHmac('sha256', macKey)
  for await (const bytes of piecesOf(file, 0, size - MAC_BYTES)) mac.update(bytes)
  const last = Buffer.alloc(MAC_BYTES)
  await file.read(last, 0, MAC_BYTES, size - MAC_BYTES)
  return sameText(last.toString().trim(), mac.digest('hex'))
}

/** Its lines but the MAC, in groups as they are read. */
export async function* linesOf(file: FileHandle): AsyncGenerator<readonly string[]> {
  const { size } = await file.stat()
  let begun: Buffer[] = []
  for await (const bytes of piecesOf(file, 0, size - MAC_BYTES)) {
    const lines: string[] = []
    let from = 0
    for (let to = bytes.indexOf(NEWLINE); to !== -1; to = bytes.indexOf(NEWLINE, from)) {
      begun.push(bytes.subarray(from, to))
      lines.push(Buffer.concat(begun).toString())
      begun = []
      from = to + 1
    }
    if (from < bytes.length) begun.push(Buffer.from(bytes.subarray(from)))
    yield lines
  }
}

/** The bytes from one place to another; each piece is overwritten by the next. */
async function* piecesOf(file: FileHandle, from: number, end: number): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES)
  for (let at = from; at < end; ) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(READ_BYTES, end - at), at)
    if (bytesRead === 0) return
    yield buffer.subarray(0, bytesRead)
    at += bytesRead
  }
}
