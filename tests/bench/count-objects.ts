// Preloaded into a gateway that never collects: at SIGUSR2 it writes how many objects of each type there are into the file that `OBJECT_COUNTS` names.
import { heapStats } from 'bun:jsc'
import { renameSync, writeFileSync } from 'node:fs'

const file = process.env.OBJECT_COUNTS!

process.on('SIGUSR2', () => {
  writeFileSync(`${file}.new`, JSON.stringify(heapStats().objectTypeCounts))
  renameSync(`${file}.new`, file)
})
