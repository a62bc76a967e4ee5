// Waiting at the end of several topics: they are asked in one go, and each wakes its own readers.
import { expect, test } from 'bun:test'
import { CommitWatch } from '../../../src/log/embedded/commit-watch.ts'

/** Says which looks were taken in one turn of the event loop. */
const turns = () => {
  let turn: object | null = null
  return () => {
    if (turn === null) {
      turn = {}
      setImmediate(() => {
        turn = null
      })
    }
    return turn
  }
}

test('topics that are waited for from different times on are asked in the same turns', async () => {
  const turnNow = turns()
  const looks: object[][] = [[], []]
  const told = Promise.withResolvers<void>()
  const watches = looks.map(
    (own) =>
      new CommitWatch(() => {
        own.push(turnNow())
        if (looks.every(({ length }) => length >= 8)) told.resolve()
        return 1
      }),
  )
  const ending = new AbortController()
  const reading = async (watch: CommitWatch) => {
    while (!ending.signal.aborted) await watch.change(ending.signal)
  }
  const first = reading(watches[0]!)
  // The second one begins between two looks of the first: they are five milliseconds apart.
  const nextTurn = () => new Promise((resolve) => setImmediate(resolve))
  while (looks[0]!.length < 3) await nextTurn()
  for (const lookedMs = performance.now(); performance.now() - lookedMs < 2; ) await nextTurn()
  const second = reading(watches[1]!)
  await told.promise
  ending.abort()
  await Promise.all([first, second])
  for (const watch of watches) watch.close()
  const shared = looks[1]!.slice(1).filter((turn) => looks[0]!.includes(turn))
  expect(shared.length).toBe(looks[1]!.length - 1)
})

test('a topic in which nobody has committed for a second is asked every 20 ms', async () => {
  const looks: number[] = []
  const rests = Promise.withResolvers<void>()
  const beganMs = performance.now()
  const watch = new CommitWatch(() => {
    looks.push(performance.now())
    if (looks.at(-4)! - beganMs > 1_050) rests.resolve()
    return 1
  })
  const ending = new AbortController()
  const reading = (async () => {
    while (!ending.signal.aborted) await watch.change(ending.signal)
  })()
  await rests.promise
  ending.abort()
  await reading
  watch.close()
  const [first, second, third] = looks.slice(-3) as [number, number, number]
  // A timer is late at times, and never early.
  for (const gapMs of [second - first, third - second]) expect(gapMs).toBeGreaterThan(18)
})

test('what one topic is told of wakes nobody who waits for another', async () => {
  const one = new CommitWatch(() => 1)
  const other = new CommitWatch(() => 1)
  const ending = new AbortController()
  // The first look of each wakes whoever waits: what it knew before is nothing.
  await Promise.all([one.change(ending.signal), other.change(ending.signal)])
  let isWoken = false
  const waiting = other.change(ending.signal).then(() => {
    isWoken = true
  })
  const mine = one.change(ending.signal)
  one.wake()
  await mine
  expect(isWoken).toBe(false)
  ending.abort()
  await waiting
})
