// Search for one request of the request log while its row is on its way: the search finds it, waits for it, or reports
// that it does not exist. It never reports an uncertain result.
import { describe, expect, test } from 'bun:test'
import {
  awaitRow,
  findRequest,
  type RequestLookup,
  type RequestQuery,
  type RequestRow,
} from '../../../src/inference/surface/request-search.ts'
import { newId } from '../../../src/lib/crypto/ids.ts'
import { RecentRequests } from '../../../src/state/indexes/recent-requests.ts'

const NOW_MS = Date.UTC(2026, 10, 20)
const MINUTE_MS = 60_000
const idOfAge = (ms: number) => newId('req', NOW_MS - ms)

interface Row extends RequestRow {
  readonly label: string
}

/** A request log that returns `rows(n)` at the nth read, from 1. */
const world = (
  rows: (nth: number) => readonly Row[] = () => [],
  { isKnown = false, behindMs = 0 }: { isKnown?: boolean; behindMs?: number | null } = {},
) => {
  const recentRequests = new RecentRequests(8)
  const leaving = new AbortController()
  const made = { recentRequests, leaving, reads: 0, ask }
  const requestLookup = { isKnown: async () => isKnown, behindMs: async () => behindMs }
  function ask(idOrLabel: string, more: Partial<RequestQuery> = {}) {
    const asked = { idOrLabel, tenantId: 'ten_1', atMs: NOW_MS, signal: leaving.signal, param: null, ...more }
    const read = async (idOrLabel: string, tenantId: string | null) => {
      const seen = rows(++made.reads).filter((row) => tenantId === null || row.tenant_id === tenantId)
      return seen.find(({ id }) => id === idOrLabel) ?? seen.findLast(({ label }) => label === idOrLabel) ?? null
    }
    return awaitRow(asked, read, { recentRequests, requestLookup })
  }
  return made
}
const rowOf = (id: string, label = id, tenant_id = 'ten_1'): Row => ({ id, label, tenant_id })

const NOT_FOUND = expect.objectContaining({ code: 'not_found' })
const LATER = expect.objectContaining({ code: 'upstream_error', status: 502, retryable: true, retryAfterS: 1 })
const thrown = (asking: Promise<unknown>) =>
  asking.then(
    () => null,
    (error: unknown) => error,
  )

describe('a request that was answered a moment ago', () => {
  test('is awaited, whoever served it', async () => {
    const id = idOfAge(100)
    const { ask } = world((nth) => (nth > 4 ? [rowOf(id)] : []))
    expect(await ask(id)).toMatchObject({ id })
  })

  test('is awaited by its label too where this process served it, though an older one is there', async () => {
    const [older, newer] = [idOfAge(9_000), idOfAge(100)]
    const { recentRequests, ask } = world((nth) =>
      nth > 2 ? [rowOf(older, 'mine'), rowOf(newer, 'mine')] : [rowOf(older, 'mine')],
    )
    recentRequests.add(newer, 'mine', 'ten_1')
    expect(await ask('mine', { tenantId: null })).toMatchObject({ id: newer })
  })

  test('is of another tenant as soon as its row says so', async () => {
    const id = idOfAge(100)
    const log = world((nth) => (nth > 3 ? [rowOf(id, id, 'ten_2')] : []))
    expect(await thrown(log.ask(id))).toEqual(NOT_FOUND)
    expect(log.reads).toBe(4)
  })

  test('of another tenant that this process served is not there at once', async () => {
    const id = idOfAge(100)
    const log = world()
    log.recentRequests.add(id, id, 'ten_2')
    expect(await thrown(log.ask(id))).toEqual(NOT_FOUND)
    expect(log.reads).toBe(2)
  })

  test('ends with its client', async () => {
    const log = world((nth) => {
      if (nth === 1) log.leaving.abort()
      return []
    })
    expect(await thrown(log.ask(idOfAge(100)))).toMatchObject({ code: 'request_canceled' })
    expect(log.reads).toBeLessThanOrEqual(2)
  })

  test('is 502 and retryable when its row does not come, after some looks', async () => {
    const log = world()
    expect(await thrown(log.ask(idOfAge(100), { tenantId: null }))).toEqual(LATER)
    expect(log.reads).toBeGreaterThan(3)
    expect(log.reads).toBeLessThan(12)
  })
})

describe('an older id', () => {
  const old = idOfAge(2 * MINUTE_MS)

  test('that nobody knows is 404 at once', async () => {
    const log = world()
    expect(await thrown(log.ask(old, { tenantId: null }))).toEqual(NOT_FOUND)
    expect(log.reads).toBe(1)
  })

  test('of a request that is still being answered is no 404, wherever it is', async () => {
    expect(await thrown(world(undefined, { isKnown: true }).ask(old))).toEqual(LATER)
    const here = world()
    here.recentRequests.add(old, 'mine', 'ten_1')
    for (const name of [old, 'mine']) expect(await thrown(here.ask(name))).toEqual(LATER)
  }, 20_000)

  test.each([60_000, null])('is no 404 while the request log is behind by %p ms', async (behindMs) => {
    expect(await thrown(world(undefined, { behindMs }).ask(old))).toEqual(LATER)
  })
})

test('a label that nobody used, and an id of a time to come, are 404 at once', async () => {
  for (const name of ['nobody', idOfAge(-2 * MINUTE_MS)]) {
    const log = world()
    expect(await thrown(log.ask(name, { tenantId: null }))).toEqual(NOT_FOUND)
    expect(log.reads).toBe(1)
  }
})

test('what feedback is about is read after it is asked how far the request log is', async () => {
  const [older, newer] = [idOfAge(9_000), idOfAge(100)]
  let isThere = false
  const requestLookup: RequestLookup = {
    hasOthers: true,
    find: async () => ({ id: isThere ? newer : older, requestId: 'mine', providerId: null, modelId: null }),
    isKnown: async () => true,
    // It has caught up at this moment.
    behindMs: async () => {
      isThere = true
      return 0
    },
  }
  const { signal } = new AbortController()
  const asked = { idOrLabel: 'mine', tenantId: 'ten_1', atMs: NOW_MS, signal, param: null }
  expect(await findRequest(asked, { recentRequests: new RecentRequests(8), requestLookup })).toMatchObject({
    id: newer,
  })
})
