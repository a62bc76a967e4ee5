// Rows by their place in the log: each once, whatever its partition and time of arrival, however many there are at
// once.
import { expect, test } from 'bun:test'
import { type LogPlace, type RequestFilter, requestQueries } from '../../../projections/requests/query.ts'
import { testStore } from '../store.ts'
import { ALL_REQUESTS, NOON_MS, REQUESTS, sender, settled, testLog } from '../support.ts'

const HOUR_MS = 3_600_000
const store = testStore({ kept: true })

test('every row that matches, once, in the order of each partition', async () => {
  const log = testLog(2)
  const from = sender()
  const append = (partition: number, ids: readonly string[], more = {}) =>
    log.append(
      REQUESTS,
      partition,
      ids.map((id) => from.record('request.settled', settled(id, more))),
    )
  await append(0, ['old'])
  const worker = store.follow(log)
  await store.applied('requests', 1)
  const requests = requestQueries(store.sql)
  const filter: RequestFilter = { ...ALL_REQUESTS, fromMs: NOON_MS - 24 * HOUR_MS, toMs: NOON_MS + 24 * HOUR_MS }
  const first = await requests.place()

  // Arrived earlier than what is there already, settled later; more at once than one look shows.
  const many = Array.from({ length: 450 }, (_, index) => `many_${index}`)
  for (let at = 0; at < many.length; at += 150) await append(0, many.slice(at, at + 150), { at_ms: NOON_MS - HOUR_MS })
  await append(1, ['other_1', 'other_2'], { tenant_id: 'ten_2', outcome: 'error' })
  await append(1, ['too_old'], { at_ms: NOON_MS - 25 * HOUR_MS })
  await store.applied('requests', 451, 0)
  await store.applied('requests', 3, 1)
  await worker.stop()

  const follow = async (asked: RequestFilter): Promise<{ ids: string[]; looks: number }> => {
    const ids: string[] = []
    let place: LogPlace = first
    for (let looks = 1; ; looks++) {
      const { rows, reached, isBehind } = await requests.since(place, asked)
      ids.push(...rows.map(({ request }) => request.id))
      if (!isBehind) return { ids, looks }
      place = reached
    }
  }
  const all = await follow(filter)
  expect(all.looks).toBe(3) // of the 450, 200 at a time
  expect(all.ids.filter((id) => id.startsWith('many'))).toEqual(many)
  expect(all.ids.filter((id) => !id.startsWith('many'))).toEqual(['other_1', 'other_2'])
  expect((await follow({ ...filter, tenantId: 'ten_2' })).ids).toEqual(['other_1', 'other_2'])
  expect((await follow({ ...filter, outcome: 'canceled' })).ids).toEqual([])
  const { rows, reached } = await requests.since(new Map([[0, 9e14]]), filter) // of a log that was longer
  expect([rows.map(({ request }) => request.id), reached]).toEqual([
    ['other_1', 'other_2'],
    new Map([
      [0, 451],
      [1, 3],
    ]),
  ])
}, 60_000)

test('a look goes by the place in the log, not through the day', async () => {
  const schema = await store.schemaOf('requests')
  await store.sql.begin(async (transaction) => {
    await transaction`set local enable_seqscan = off`
    const plan = await transaction.unsafe<{ 'QUERY PLAN': string }[]>(
      `explain select id from "${schema}".request where log_partition = 0 and log_offset >= 440 and log_offset < 451
       and at_ms >= ${NOON_MS - 24 * HOUR_MS} and at_ms < ${NOON_MS + 24 * HOUR_MS} order by log_offset limit 200`,
    )
    expect(plan.map((row) => row['QUERY PLAN']).join('\n')).toContain('log_partition_log_offset_idx')
  })
})

test('who comes back from far away is brought there in steps, whatever of it matches', async () => {
  const requests = requestQueries(store.sql)
  const filter: RequestFilter = { ...ALL_REQUESTS, fromMs: NOON_MS - HOUR_MS, toMs: NOON_MS + HOUR_MS, outcome: 'none' }
  await store.sql`update gatelog.position set next_offset = 12000 where model = 'requests' and partition = 0`
  let place: LogPlace = new Map()
  const steps: [number, boolean][] = []
  do {
    const { reached, isBehind } = await requests.since(place, filter)
    steps.push([reached.get(0)!, isBehind])
    place = reached
  } while (steps.at(-1)![1])
  expect(steps).toEqual([
    [5_000, true],
    [10_000, true],
    [12_000, false],
  ])
})
