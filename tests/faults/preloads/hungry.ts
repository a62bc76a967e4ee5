// Loaded before a gateway: while the file named by `FAULT_MEMORY` says `eat`, it takes memory and keeps it, until somebody ends it.
import { readFileSync } from 'node:fs'

const path = process.env.FAULT_MEMORY
if (path === undefined) throw new Error('FAULT_MEMORY is not set')
const PIECE_BYTES = 8 * 1024 * 1024
const EVERY_MS = 10

const eaten: Uint8Array[] = []
setInterval(() => {
  if (readFileSync(path, 'utf8') === 'eat') eaten.push(Buffer.alloc(PIECE_BYTES, 1))
}, EVERY_MS).unref()
