// Feedback in Postgres: the latest of each request and metric, in whatever order it arrives.
import { describe, expect, test } from 'bun:test'
import { foldFeedbackRecord } from '../../projections/feedback/project.ts'
import { type FeedbackFilter, feedbackQueries } from '../../projections/feedback/query.ts'
import type { FeedbackGiven } from '../../src/domain/events/feedback.ts'
import { testStore } from './store.ts'
import { NOON_MS, REQUESTS, sender, settled, testLog } from './support.ts'

const store = testStore()
const given = (request: string, more: Partial<FeedbackGiven> = {}): FeedbackGiven => ({
  id: `fb_${request}`,
  at_ms: NOON_MS,
  tenant_id: 'ten_1',
  key_id: 'key_1',
  request,
  request_id: request,
  provider_id: 'prov_1',
  model_id: 'mod_1',
  score: 1,
  comment: null,
  metric: 'quality',
  tags: {},
  ...more,
})
const ALL: FeedbackFilter = {
  tenantId: null,
  fromMs: 0,
  toMs: NOON_MS * 2,
  requestId: null,
  providerId: null,
  modelId: null,
  metric: null,
  limit: 50,
  offset: 0,
}

describe('the feedback read model', () => {
  test('keeps the latest of a request and metric, beside the request log, and sums by model', async () => {
    const log = testLog(2)
    const [one, two] = [sender('ins_1'), sender('ins_2')]
    const first = given('req_1', { score: -1, id: 'fb_1' })
    const repeat = given('req_1', { score: 0.5, id: 'fb_2', at_ms: NOON_MS + 5, comment: "it's fine; drop table" })
    await log.append(REQUESTS, 0, [
      one.record('request.settled', settled('req_1')),
      one.record('feedback.given', repeat),
      one.record('feedback.given', given('req_2', { tenant_id: 'ten_2', model_id: 'mod_2', tags: { a: 'b' } })),
      one.record('feedback.given', { ...given('req_3'), score: 7 }),
    ])
    // The earlier one arrives by another partition, and later.
    await log.append(REQUESTS, 1, [two.record('feedback.given', first)])
    await log.append(REQUESTS, 1, [
      two.record('feedback.given', given('req_1', { metric: 'speed', score: 0, id: 'fb_3' })),
    ])
    await store.fold(log, { model: 'feedback' })
    const queries = feedbackQueries(store.sql)
    const { feedback, total } = await queries.list(ALL)
    expect(total).toBe(3)
    expect(feedback.map(({ request, metric, score }) => [request, metric, score])).toEqual([
      ['req_1', 'quality', 0.5],
      ['req_2', 'quality', 1],
      ['req_1', 'speed', 0],
    ])
    expect(feedback[1]).toMatchObject({ tags: { a: 'b' }, tenant_id: 'ten_2' })
    expect((await queries.list({ ...ALL, tenantId: 'ten_2' })).feedback.map(({ request }) => request)).toEqual([
      'req_2',
    ])
    expect((await queries.list({ ...ALL, metric: 'speed', limit: 1 })).total).toBe(1)
    const { models, untilMs } = await queries.means(0)
    expect(models).toEqual([
      { model_id: 'mod_1', sum: 0.5, count: 2 },
      { model_id: 'mod_2', sum: 1, count: 1 },
    ])
    expect(untilMs).toBe(NOON_MS + 5)
    expect((await store.setAside('feedback'))[0]?.reason).toContain('feedback.given')
  })

  test('takes nothing from a record that only mentions it', () => {
    const text = sender().record('request.settled', settled('x', { raw_usage: { type: 'feedback.given' } }))
    const record = { offset: 0, atMs: NOON_MS, key: 'ten_1', value: text.value }
    expect(foldFeedbackRecord(record, 0)).toEqual({ origin: null, rows: [], problem: null })
  })
})
