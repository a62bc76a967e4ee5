// The last records of the control topic in a data folder, as bytes: what `gateway log restore` appends again when the
// log has lost them. Two files, the newer one after the older; each a row of frames (length, CRC-32C, counted or not,
// offset, value). This is the format and its reader.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32c } from '../../lib/compression/compression.ts'
import { sha256Hex } from '../../lib/crypto/digest.ts'
import { codeOf } from '../../lib/process/error-code.ts'
import type { ChainPosition } from '../position-witness.ts'

export interface StoredRecord {
  readonly offset: number
  /** A decision that counted. */
  readonly counted: boolean
  readonly value: Uint8Array | null
}

const HEAD_BYTES = 20
const COUNTED = 1
const NO_VALUE = 2
/** Longer ones are damage: no broker takes a record of this size. */
const MAX_VALUE_BYTES = 16 * 1024 * 1024

/** The files of the newer and of the older records. */
export const recordFiles = (dataDir: string): { readonly newer: string; readonly older: string } => ({
  newer: join(dataDir, 'control-records'),
  older: join(dataDir, 'control-records.older'),
})

export const recordFrame = ({ offset, counted, value }: StoredRecord): Uint8Array => {
  const frame = Buffer.allocUnsafe(HEAD_BYTES + (value?.length ?? 0))
  frame.writeUInt32LE(value?.length ?? 0, 0)
  frame.writeUInt32LE((counted ? COUNTED : 0) | (value === null ? NO_VALUE : 0), 8)
  frame.writeDoubleLE(offset, 12)
  if (value !== null) frame.set(value, HEAD_BYTES)
  frame.writeUInt32LE(crc32c(frame, 8), 4)
  return frame
}

export interface StoredFile {
  /** Offsets follow each other. */
  readonly records: readonly StoredRecord[]
  /** The length before the first damaged or torn frame. */
  readonly bytes: number
}

const NOTHING: StoredFile = { records: [], bytes: 0 }

/** The records of one file up to its first error: a crash may have torn the last frame. */
export const readStoredFile = (path: string): StoredFile => {
  const bytes = readOrNull(path)
  if (bytes === null) return NOTHING
  const records: StoredRecord[] = []
  let at = 0
  while (bytes.length - at >= HEAD_BYTES) {
    const length = bytes.readUInt32LE(at)
    const end = at + HEAD_BYTES + length
    if (length > MAX_VALUE_BYTES || end > bytes.length) break
    if (crc32c(bytes, at + 8, end) !== bytes.readUInt32LE(at + 4)) break
    const flags = bytes.readUInt32LE(at + 8)
    const offset = bytes.readDoubleLE(at + 12)
    if (records.length > 0 && offset !== records.at(-1)!.offset + 1) break
    const value = (flags & NO_VALUE) === 0 ? bytes.subarray(at + HEAD_BYTES, end) : null
    records.push({ offset, counted: (flags & COUNTED) !== 0, value })
    at = end
  }
  return { records, bytes: at }
}

/**
 * All stored records, the oldest first, offsets following each other. Throws when a file is there and cannot be read.
 */
export const readStoredRecords = (dataDir: string): readonly StoredRecord[] => {
  const files = recordFiles(dataDir)
  const older = readStoredFile(files.older).records
  const newer = readStoredFile(files.newer).records
  if (newer.length === 0) return older
  const follows = older.at(-1)?.offset === newer[0]!.offset - 1
  return follows ? [...older, ...newer] : newer
}

/** The position that the stored records prove: the newest decision that counted. Null when none is stored. */
export const storedPosition = (dataDir: string): ChainPosition | null => {
  const last = readStoredRecords(dataDir).findLast(({ counted }) => counted)
  return last === undefined ? null : { next: last.offset + 1, tip: sha256Hex(last.value!) }
}

const readOrNull = (path: string): Buffer | null => {
  try {
    return readFileSync(path)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
}
