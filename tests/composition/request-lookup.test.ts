// What feedback is told of the request log, whatever comes into it meanwhile.
import { expect, test } from 'bun:test'
import type { RequestDetail, RequestQueries } from '../../projections/requests/query.ts'
import type { StoredStatus } from '../../projections/status.ts'
import { requestLookup } from '../../src/composition/request-lookup.ts'
import { newId } from '../../src/lib/crypto/ids.ts'

const [FIRST, SECOND] = [newId('req', Date.now()), newId('req', Date.now())]
const rowOf = (id: string, tenantId: string, label = id) =>
  ({ id, request_id: label, tenant_id: tenantId, routing: { chosen: null } }) as unknown as RequestDetail

/** A request log that answers like the real one; `at` says what is in it when it is asked for the nth time, from 0. */
const lookupOn = (at: (nth: number) => readonly RequestDetail[]) => {
  let nth = 0
  const one: RequestQueries['one'] = async (idOrLabel, tenantId) => {
    const rows = at(nth++).filter((row) => tenantId === null || row.tenant_id === tenantId)
    return rows.find(({ id }) => id === idOrLabel) ?? rows.findLast((row) => row.request_id === idOrLabel) ?? null
  }
  return requestLookup({ sql: null as never, hasOthers: true, requests: { one, isKnown: async () => false } })
}

test('a row that comes between two reads is the tenant’s own, not another’s', async () => {
  const lookup = lookupOn((nth) => (nth === 0 ? [] : [rowOf(FIRST, 'ten_1')]))
  expect(await lookup.find(FIRST, 'ten_1')).toMatchObject({ id: FIRST })
})

test('another tenant’s is foreign by id, and not there by label', async () => {
  const lookup = lookupOn(() => [rowOf(FIRST, 'ten_1', 'mine')])
  expect(await lookup.find(FIRST, 'ten_2')).toBe('foreign')
  expect(await lookup.find('mine', 'ten_2')).toBeNull()
  expect(await lookup.find('mine', 'ten_1')).toMatchObject({ id: FIRST, requestId: 'mine' })
})

test('a label that is the id of another tenant’s request is of who has the label', async () => {
  const lookup = lookupOn(() => [rowOf(FIRST, 'ten_1'), rowOf(SECOND, 'ten_2', FIRST)])
  expect(await lookup.find(FIRST, 'ten_2')).toMatchObject({ id: SECOND })
})

test.each([
  ['what it says, while it comes in time', { lag_ms: 300, age_ms: 1_900 }, 300],
  ['longer, when the next report is late', { lag_ms: 300, age_ms: 3_500 }, 1_300],
  ['unknown, while another build is made', { lag_ms: 0, state: 'building' }, null],
  ['unknown, before the log is followed', { lag_ms: 0, state: 'starting' }, null],
  ['unknown, when it is of another read model', { model: 'audit' }, null],
] as const)('by the last report the request log is behind %s', async (_, fields, expected) => {
  const report: StoredStatus = { ...REPORT, ...fields }
  const status = (async () => [report]) as never
  expect(await requestLookup({ sql: null as never, hasOthers: true, requests: null as never, status }).behindMs()).toBe(
    expected,
  )
})
const REPORT: StoredStatus = {
  ...{ model: 'requests', state: 'live', detail: '', lag_ms: 0, behind_records: 0, poison: 0, age_ms: 0 },
}
