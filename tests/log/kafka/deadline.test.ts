import { afterEach, expect, setSystemTime, test } from 'bun:test'
import { leftMs, requireTime, withDeadline } from '../../../src/log/kafka/deadline.ts'
import { LogUnavailable } from '../../../src/log/port.ts'

afterEach(() => void setSystemTime())
const failure = (why: string) => new LogUnavailable(why)

test('after the deadline the work is told to send nothing more, whatever the clock on the wall says', async () => {
  const slow = Promise.withResolvers<void>()
  const sent: string[] = []
  const { promise: finished, resolve: finish } = Promise.withResolvers<unknown>()
  const call = withDeadline(
    10,
    new AbortController().signal,
    async (limits) => {
      setSystemTime(Date.now() - 3_600_000)
      await slow.promise
      try {
        requireTime(limits, 0)
        sent.push('a record')
      } catch (error) {
        finish(error)
        throw error
      }
    },
    failure,
  )
  await expect(call).rejects.toThrow('no answer within 10 ms')
  slow.resolve()
  expect(await finished).toBeInstanceOf(LogUnavailable)
  expect(sent).toEqual([])
})

test('a caller that gives up ends the work too', async () => {
  const caller = new AbortController()
  let given: AbortSignal | null = null
  const call = withDeadline(
    60_000,
    caller.signal,
    ({ signal }) => {
      given = signal
      return new Promise<never>(() => {})
    },
    failure,
  )
  caller.abort()
  await expect(call).rejects.toThrow('the caller stopped waiting')
  expect(given!.aborted).toBe(true)
})

test('the outcome of the work, when it comes in time', async () => {
  const never = new AbortController().signal
  expect(await withDeadline(60_000, never, async (limits) => leftMs(limits) > 50_000, failure)).toBe(true)
  await expect(withDeadline(60_000, never, () => Promise.reject(new Error('its own')), failure)).rejects.toThrow('own')
})
