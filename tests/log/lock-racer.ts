// A thread that tries to take a lock again and again, each time at the same moment as another thread. `workerData`
// holds the folder, the shared counters and the number of rounds.
import { workerData } from 'node:worker_threads'
import { tryLock } from '../../src/log/lock.ts'

const { directory, cells, rounds } = workerData as { directory: string; cells: Int32Array; rounds: number }
const SPINS = 20_000
const LIMIT_MS = 10_000
/** Waits for the other, awake at first: they are to go on at the same moment. */
const meet = (cell: number) => {
  if (Atomics.add(cells, cell, 1) === 1) return void Atomics.notify(cells, cell)
  for (let spins = 0; spins < SPINS; spins++) if (Atomics.load(cells, cell) === 2) return
  if (Atomics.wait(cells, cell, 1, LIMIT_MS) === 'timed-out') throw new Error('the other has not come')
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
