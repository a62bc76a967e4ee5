// A thread that tries for a lock again and again, each time at the same moment as another: `workerData` has the folder, the shared numbers and which of the two it is.
import { workerData } from 'node:worker_threads'
import { tryLock } from '../../src/log/lock.ts'

const { directory, cells, rounds } = workerData as { directory: string; cells: Int32Array; rounds: number }
const meet = (cell: number) => {
  Atomics.add(cells, cell, 1)
  while (Atomics.load(cells, cell) < 2);
}

for (let round = 0; round < rounds; round++) {
  // Three numbers of each round: how many are there, how many have tried, and how many got it.
  const [here, tried, got] = [round * 3, round * 3 + 1, round * 3 + 2]
  meet(here)
  const lock = tryLock(directory)
  if (lock !== null) Atomics.add(cells, got, 1)
  meet(tried)
  lock?.release()
}
