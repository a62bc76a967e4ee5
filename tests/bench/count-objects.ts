// Preloaded into a gateway that never collects: at SIGUSR2 it writes how many objects of each type there are, and how many bytes the heap and what hangs on it take,
// into the file that `OBJECT_COUNTS` names.
import { heapStats } from 'bun:jsc'
import { renameSync, writeFileSync } from 'node:fs'

const file = process.env.OBJECT_COUNTS!

process.on('SIGUSR2', () => {
  const { objectTypeCounts: objects, heapCapacity, extraMemorySize } = heapStats()
  writeFileSync(`${file}.new`, JSON.stringify({ objects, bytes: heapCapacity + extraMemorySize }))
  renameSync(`${file}.new`, file)
})
