// Pages of the request log and of the audit: every row once, in the order of the list, while new rows arrive.
import { beforeAll, expect, test } from 'bun:test'
import { auditQueries } from '../../../projections/audit/query.ts'
import { type RequestFilter, requestQueries } from '../../../projections/requests/query.ts'
import { type EventRecord, GENESIS, writeDecision } from '../../../src/domain/kernel/decision.ts'
import type { NewRecord } from '../../../src/log/port.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { tenantCreated } from '../../domain/world.ts'
import { testStore } from '../store.ts'
import { ALL_REQUESTS, MAC_KEY, NOON_MS, REQUESTS, sender, settled, testLog } from '../support.ts'

const DAY_MS = 86_400_000
const ROWS = 2_345
const EVENTS = 1_234
const store = testStore({ kept: true })
const log = testLog()
const { record } = sender()

const append = async (topic: string, records: readonly NewRecord[]) => {
  for (let from = 0; from < records.length; from += 150) await log.append(topic, 0, records.slice(from, from + 150))
}

beforeAll(async () => {
  // Over three days, many of them in the same millisecond.
  const rows = Array.from({ length: ROWS }, (_, index) =>
    settled(`req_${String(index).padStart(5, '0')}`, {
      at_ms: NOON_MS - (index % 3) * DAY_MS + Math.floor(index / 100),
      tenant_id: index % 2 === 0 ? 'ten_1' : 'ten_2',
    }),
  )
  await append(
    REQUESTS,
    rows.map((row) => record('request.settled', row)),
  )
  let parent = GENESIS
  const decisions = Array.from({ length: EVENTS / 2 }, (_, index) => {
    const events: EventRecord[] = [tenantCreated(`ten_a${index}`), tenantCreated(`ten_b${index}`)]
    const actor = { type: 'key', id: 'key_admin' } as const
    const made = writeDecision(
      { parent, at: new Date(NOON_MS).toISOString(), actor, cause: null, v: 1, events },
      MAC_KEY,
    )
    parent = made.id
    return { key: null, value: made.bytes }
  })
  await append(TOPICS.control.name, decisions)
  store.follow(log)
  await store.applied('requests', ROWS)
  await store.applied('audit', EVENTS / 2)
}, 60_000)

const ALL: RequestFilter = { ...ALL_REQUESTS, fromMs: NOON_MS - 9 * DAY_MS, toMs: NOON_MS + DAY_MS }

const idsOf = async (pages: AsyncIterable<readonly { readonly id: string }[]>): Promise<string[]> => {
  const ids: string[] = []
  for await (const page of pages) {
    expect(page.length).toBeLessThanOrEqual(1_000)
    ids.push(...page.map(({ id }) => id))
  }
  return ids
}

test('pages of requests are the list, cut by limit and offset', async () => {
  const requests = requestQueries(store.sql)
  const { requests: list, total } = await requests.list({ ...ALL, limit: 5_000 })
  const listed = list.map(({ id }) => id)
  expect([listed.length, total]).toEqual([ROWS, ROWS])
  expect(await idsOf(requests.pages(ALL))).toEqual(listed)
  expect(await idsOf(requests.pages({ ...ALL, limit: 1_500, offset: 7 }))).toEqual(listed.slice(7, 1_507))
  const own = list.filter(({ tenant_id }) => tenant_id === 'ten_1').map(({ id }) => id)
  expect(await idsOf(requests.pages({ ...ALL, tenantId: 'ten_1' }))).toEqual(own)
  expect(await idsOf(requests.pages({ ...ALL, tenantId: 'ten_3' }))).toEqual([])
})

test('rows that are settled while pages are read put none of the others twice or away', async () => {
  const pages = requestQueries(store.sql).pages(ALL)
  const ids = (await pages.next()).value!.map(({ id }) => id)
  const late = ['req_late_1', 'req_late_2'].map((id) => record('request.settled', settled(id, { at_ms: NOON_MS + 99 })))
  await log.append(REQUESTS, 0, late)
  await store.applied('requests', ROWS + 2)
  ids.push(...(await idsOf(pages)))
  expect([ids.length, new Set(ids).size]).toEqual([ROWS, ROWS])
})

test('pages of the audit are the list', async () => {
  const audit = auditQueries(store.sql)
  const filter = {
    tenantId: null,
    resource: 'tenant',
    action: null,
    subjectId: null,
    actorId: null,
    fromMs: null,
    toMs: null,
    limit: 5_000,
    offset: 0,
  }
  const { events } = await audit.list(filter)
  expect(events).toHaveLength(EVENTS)
  expect(await idsOf(audit.pages(filter))).toEqual(events.map(({ id }) => id))
  expect(await idsOf(audit.pages({ ...filter, limit: 1_100, offset: 3 }))).toEqual(
    events.slice(3, 1_103).map(({ id }) => id),
  )
})
