// Lists of the request log: they find what a scan of every row finds, whatever the filter and the window; their totals
// are of the same moment.
import { beforeAll, describe, expect, test } from 'bun:test'
import { openDatabase } from '../../../projections/database.ts'
import { ReadStoreUnavailable, readActive, readSnapshot } from '../../../projections/reader.ts'
import { listFailures, listRequests } from '../../../projections/requests/list.ts'
import { type RequestFilter, requestQueries } from '../../../projections/requests/query.ts'
import { slicesOf } from '../../../projections/requests/slices.ts'
import { usageQueries } from '../../../projections/usage/query.ts'
import type { RequestSettled } from '../../../src/domain/events/request.ts'
import { testStore } from '../store.ts'
import { ALL_REQUESTS, NOON_MS, REQUESTS, sender, settled, testLog } from '../support.ts'

const MINUTE_MS = 60_000
const DAY_MS = 1_440 * MINUTE_MS
const ROWS = 900
const CODES = [null, null, null, 'upstream_error', 'timeout'] as const
const store = testStore({ kept: true })
const log = testLog()
const one = sender()

/** Over eight days, several in a millisecond, at odd places within their minutes. */
const ROW_FACTS = Array.from({ length: ROWS }, (_, index): RequestSettled => {
  const code = CODES[index % CODES.length]!
  return settled(`req_${String(index).padStart(4, '0')}`, {
    request_id: index % 7 === 0 ? `Label-${index % 21}` : `req_${String(index).padStart(4, '0')}`,
    at_ms: NOON_MS - Math.floor(index / 3) * 2_345_678,
    tenant_id: index % 3 === 0 ? 'ten_2' : 'ten_1',
    key_id: `key_${index % 4}`,
    user: index % 50 === 0 ? 'someone' : null,
    provider: index % 4 === 0 ? 'Vendor' : 'sandbox',
    status: code === null ? 200 : 502,
    error_code: code,
    outcome: code === null ? 'success' : 'error',
  })
})
const NEWEST_FIRST = [...ROW_FACTS].sort((a, b) => b.at_ms - a.at_ms || (a.id < b.id ? 1 : -1))
const ALL: RequestFilter = { ...ALL_REQUESTS, fromMs: NOON_MS - 20 * DAY_MS, toMs: NOON_MS + 1, limit: 50 }

beforeAll(async () => {
  const records = ROW_FACTS.map((row) => one.record('request.settled', row))
  for (let from = 0; from < ROWS; from += 150) await log.append(REQUESTS, 0, records.slice(from, from + 150))
  await store.fold(log)
}, 60_000)

const meant: readonly (readonly [Partial<RequestFilter>, (row: RequestSettled) => boolean])[] = [
  [{}, () => true],
  [{ tenantId: 'ten_2' }, ({ tenant_id }) => tenant_id === 'ten_2'],
  [{ tenantId: 'ten_9' }, () => false],
  [{ outcome: 'error' }, ({ outcome }) => outcome === 'error'],
  [{ errorCode: 'timeout', tenantId: 'ten_1' }, (row) => row.error_code === 'timeout' && row.tenant_id === 'ten_1'],
  [{ statusMin: 500 }, ({ status = 200 }) => status >= 500],
  [{ key: 'key_2' }, ({ key_id }) => key_id === 'key_2'],
  [{ users: ['someone'] }, ({ user }) => user === 'someone'],
  [{ provider: 'vendor' }, ({ provider }) => provider === 'Vendor'],
  [{ search: 'LABEL-14' }, ({ request_id }) => request_id === 'Label-14'],
  [{ search: 'req_00' }, ({ id }) => id.startsWith('req_00')],
  [{ search: 'nowhere' }, () => false],
]
const windows: readonly Partial<RequestFilter>[] = [
  {},
  { limit: 7, offset: 5 },
  { limit: 1_000, offset: 880 },
  { limit: 20, offset: 150 },
  { fromMs: NOON_MS - 3 * DAY_MS - 12_345, toMs: NOON_MS - DAY_MS + 777 },
  { fromMs: NOON_MS - 2_345_678, toMs: NOON_MS },
  { fromMs: NOON_MS - 10, toMs: NOON_MS + 20 },
  { fromMs: NOON_MS, toMs: NOON_MS },
]

describe('a list of requests', () => {
  for (const [filter, matches] of meant) {
    test(`finds what a look at every row finds: ${JSON.stringify(filter)}`, async () => {
      const queries = requestQueries(store.sql)
      for (const window of windows) {
        const asked = { ...ALL, ...filter, ...window }
        const all = NEWEST_FIRST.filter((row) => matches(row) && row.at_ms >= asked.fromMs && row.at_ms < asked.toMs)
        const ids = all.slice(asked.offset, asked.offset + asked.limit).map(({ id }) => id)
        const { requests, total, searchedFromMs } = await queries.list(asked)
        expect([total, searchedFromMs, requests.map(({ id }) => id)]).toEqual([all.length, asked.fromMs, ids])
        const counted: Record<string, number> = {}
        for (const { error_code } of all) counted[error_code ?? 'unknown'] = (counted[error_code ?? 'unknown'] ?? 0) + 1
        const failures = await queries.failures(asked)
        expect([failures.total, failures.byCode, failures.requests.map(({ id }) => id)]).toEqual([
          ...[all.length, counted, ids],
        ])
        const paged: string[] = []
        for await (const page of queries.pages(asked)) paged.push(...page.map(({ id }) => id))
        expect(paged).toEqual(ids)
      }
    })
  }

  test('says how far back it came when the time is up, and counts what it has seen', async () => {
    const asked = { ...ALL, provider: 'vendor', limit: 3 }
    const stopped = await readSnapshot(store.sql, 'requests', (transaction, schema) =>
      listRequests(transaction, schema, asked, { searchMs: -1, statementMs: 500 }),
    )
    expect(stopped.searchedFromMs).toBe(asked.toMs - MINUTE_MS)
    const rest = { ...asked, toMs: stopped.searchedFromMs, limit: 1_000 }
    const { requests, total } = await requestQueries(store.sql).list(rest)
    const whole = await requestQueries(store.sql).list({ ...asked, limit: 1_000 })
    expect([...stopped.requests, ...requests].map(({ id }) => id)).toEqual(whole.requests.map(({ id }) => id))
    expect(stopped.total + total).toBe(whole.total)
    const failures = await readSnapshot(store.sql, 'requests', (transaction, schema) =>
      listFailures(transaction, schema, { ...ALL, statusMin: 400 }, { searchMs: -1, statementMs: 500 }),
    )
    expect(Object.values(failures.byCode).reduce((sum, count) => sum + count, 0)).toBe(failures.total)
  })
})

describe('slices of a window', () => {
  const sliced = (fromMs: number, toMs: number, tookMs: number) => {
    let now = 0
    const found: (readonly [number, number])[] = []
    for (const slice of slicesOf({ fromMs, toMs }, 60, () => now)) {
      found.push([slice.fromMs, slice.toMs])
      now += tookMs
    }
    return found
  }

  test('are the whole window, newest first, each as wide as the time that the last one took allows', () => {
    expect(sliced(0, DAY_MS, 1).map(([from, to]) => (to - from) / MINUTE_MS)).toEqual([1, 8, 64, 512, 855])
    expect(sliced(0, 5 * MINUTE_MS, 100).map(([from, to]) => to - from)).toEqual(Array(5).fill(MINUTE_MS))
    expect(sliced(0, 5 * MINUTE_MS, 9_000)).toHaveLength(5) // never narrower than a minute
    const uneven = sliced(7, 3 * DAY_MS, 47.7)
    expect(uneven.map(([, to]) => to)).toEqual([3 * DAY_MS, ...uneven.slice(0, -1).map(([from]) => from)])
    expect([uneven.at(-1)![0], uneven.flat().every(Number.isInteger)]).toEqual([7, true])
    expect(sliced(5, 5, 1)).toEqual([])
  })
})

describe('usage', () => {
  test('counts as many requests as the list does, wherever its window begins and ends', async () => {
    const usage = usageQueries(store.sql)
    const requests = requestQueries(store.sql)
    for (const [from, to] of [
      [-3 * DAY_MS - 12_345, 1],
      [-DAY_MS - 1, -31_234],
      [-2_345_678, -2_345_677],
      [-2_345_677, -2_345_000],
      [-10_000_001, -4_700_000],
    ] as const)
      for (const tenantId of [null, 'ten_2']) {
        const filter = { ...ALL, tenantId, fromMs: NOON_MS + from, toMs: NOON_MS + to }
        const { total } = await requests.list(filter)
        const { totals } = await usage.totals(filter)
        expect([from, to, totals.requests]).toEqual([from, to, total])
        expect(total).toBe(
          ROW_FACTS.filter(
            ({ at_ms, tenant_id }) =>
              at_ms >= filter.fromMs && at_ms < filter.toMs && (tenantId === null || tenant_id === tenantId),
          ).length,
        )
      }
  })
})

describe('a read of several queries', () => {
  test('is of one moment, whatever is written meanwhile', async () => {
    const usage = usageQueries(store.sql)
    const filter = { tenantId: null, fromMs: NOON_MS - DAY_MS, toMs: NOON_MS + DAY_MS }
    const figures = await usage.snapshot(async (reads) => {
      const before = await reads.totals(filter)
      await log.append(REQUESTS, 0, [one.record('request.settled', settled('req_late', { provider: 'Vendor' }))])
      await store.fold(log)
      const { groups } = await reads.groups(filter, 'provider', 10)
      return [before.totals.requests, groups.reduce((sum, { requests }) => sum + requests, 0)]
    })
    expect(figures[0]).toBe(figures[1]!)
    expect((await usage.totals(filter)).totals.requests).toBe(figures[0]! + 1)
  })

  test('that takes too long says so', async () => {
    const impatient = openDatabase({
      url: store.databaseUrl,
      name: 'gatelog-test',
      maxConnections: 1,
      statementTimeoutMs: 50,
    })
    const refused = await readActive(impatient, 'requests', () => impatient`select pg_sleep(5)`).catch(
      (error: unknown) => error,
    )
    await impatient.end({ timeout: 1 })
    expect(refused).toBeInstanceOf(ReadStoreUnavailable)
    expect(String(refused)).toContain('shorter window')
  })
})
