// Preloaded into a gateway that never collects garbage. At SIGUSR2 it writes to the file that `OBJECT_COUNTS` names:
// the number of objects of each type, and the bytes of the heap and of the memory attached to it.
import { heapStats } from 'bun:jsc'
import { renameSync, writeFileSync } from 'node:fs'

const file = process.env.OBJECT_COUNTS!

process.on('SIGUSR2', () => {
  const { objectTypeCounts: objects, heapCapacity, extraMemorySize } = heapStats()
  writeFileSync(`${file}.new`, JSON.stringify({ objects, bytes: heapCapacity + extraMemorySize }))
  renameSync(`${file}.new`, file)
})
