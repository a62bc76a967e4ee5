// Preloaded into a gateway: writes to the file that `FAULT_DECODED` names the size in bytes of the largest decoded
// answer since the rig last wrote 0 into it.
import { readFileSync, writeFileSync } from 'node:fs'

const path = process.env.FAULT_DECODED
if (path === undefined) throw new Error('FAULT_DECODED is not set')
const Real = DecompressionStream

const told = (bytes: number): void => {
  if (bytes > Number(readFileSync(path, 'utf8'))) writeFileSync(path, String(bytes))
}

globalThis.DecompressionStream = class {
  readonly readable: ReadableStream<Uint8Array>
  readonly writable: DecompressionStream['writable']

  constructor(format: CompressionFormat) {
    const real = new Real(format)
    let bytes = 0
    const counter = new TransformStream<Uint8Array, Uint8Array>({
      transform(piece, controller) {
        bytes += piece.length
        told(bytes)
        controller.enqueue(piece)
      },
    })
    this.writable = real.writable
    this.readable = real.readable.pipeThrough(counter) as ReadableStream<Uint8Array>
  }
} as unknown as typeof DecompressionStream
