// Preloaded into a gateway: while the file that `FAULT_MEMORY` names says `eat`, it allocates memory and keeps it,
// until the process is ended.
import { readFileSync } from 'node:fs'

const path = process.env.FAULT_MEMORY
if (path === undefined) throw new Error('FAULT_MEMORY is not set')
const PIECE_BYTES = 8 * 1024 * 1024
const EVERY_MS = 10

const eaten: Uint8Array[] = []
setInterval(() => {
  if (readFileSync(path, 'utf8') === 'eat') eaten.push(Buffer.alloc(PIECE_BYTES, 1))
}, EVERY_MS).unref()
