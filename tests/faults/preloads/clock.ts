// Preloaded into a gateway: shifts its wall clock by the milliseconds in the file that `FAULT_CLOCK` names, read anew
// ten times a second. Monotonic time stays.
import { readFileSync } from 'node:fs'

const path = process.env.FAULT_CLOCK
if (path === undefined) throw new Error('FAULT_CLOCK is not set')
const read = (): number => Number(readFileSync(path, 'utf8'))
let offsetMs = read()
setInterval(() => {
  offsetMs = read()
}, 100).unref()
const now = Date.now
Date.now = () => now() + offsetMs
