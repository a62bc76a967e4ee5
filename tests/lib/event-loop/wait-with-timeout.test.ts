// What a start waits for: a little for anything, longer for what is only slow, and not for what is away.
import { expect, test } from 'bun:test'
import { waitUnlessUnreachable } from '../../../src/lib/event-loop/wait-with-timeout.ts'

const LONG_MS = 60_000
const never = Promise.withResolvers<never>().promise
const isOver = async (waiting: Promise<void>): Promise<boolean> => {
  let over = false
  void waiting.then(() => {
    over = true
  })
  for (let turn = 0; turn < 10; turn++) await Promise.resolve()
  return over
}

// docs/behaviour.md: "Starting"
test('what is only slow is waited for until it is done, or has failed', async () => {
  for (const end of ['resolve', 'reject'] as const) {
    const work = Promise.withResolvers<void>()
    const waiting = waitUnlessUnreachable(work.promise, never, LONG_MS)
    expect(await isOver(waiting)).toBe(false)
    work[end]()
    await waiting
  }
})

test('what is away is not waited for any longer', async () => {
  const away = Promise.withResolvers<void>()
  const waiting = waitUnlessUnreachable(never, away.promise, LONG_MS)
  expect(await isOver(waiting)).toBe(false)
  away.resolve()
  await waiting
})

test('nothing is waited for without end', async () => {
  await waitUnlessUnreachable(never, never, 1)
})
