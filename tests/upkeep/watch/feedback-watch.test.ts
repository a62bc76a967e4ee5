// What routing knows of feedback, kept up to date beside the requests.
import { afterEach, expect, test } from 'bun:test'
import { watchFeedback } from '../../../src/upkeep/watch/feedback-watch.ts'

const NOW = 1_770_000_000_000
const WEEK_MS = 7 * 86_400_000
type Sums = Parameters<typeof watchFeedback>[0]['sums']

let watch: ReturnType<typeof watchFeedback>
afterEach(() => watch.close())

/** What the book is told next. */
const open = (sums: Sums) => {
  const told = Promise.withResolvers<ReadonlyMap<string, number>>()
  watch = watchFeedback({ book: { feedback: told.resolve }, nowMs: () => NOW, sums })
  return told.promise
}

test('what was given within a week before the start counts from the start on', async () => {
  const asked: number[] = []
  const told = open(async (sinceMs) => {
    asked.push(sinceMs)
    return { sums: new Map([['mod_a', { sum: -3, count: 4 }]]), untilMs: NOW }
  })
  expect([...(await told)]).toEqual([['mod_a', -0.75]])
  expect(asked).toEqual([NOW - WEEK_MS])
})

test('without the read model, what is given here counts all the same', async () => {
  const told = open(() => Promise.reject(new Error('away')))
  watch.means.add('req_1', 'quality', { modelId: 'mod_a', score: 1, atMs: NOW })
  expect([...(await told)]).toEqual([['mod_a', 1]])
})
