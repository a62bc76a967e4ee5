// `/admin/v1/requests/stream`: requests as they are settled, as server-sent events. Each stream queries the read model
// once a second from its place. The id of an event holds that place, so that a client that reconnects within a day
// misses nothing.
import type { LogPlace, RequestFilter, TailRow } from '../../../../projections/requests/query.ts'
import { sleep } from '../../../lib/event-loop/sleep.ts'
import { t } from '../../../lib/schema/schema.ts'
import { sseFrame } from '../../../lib/text/sse.ts'
import { GatewayError } from '../../../wire/errors.ts'
import { isSuperuser, type Principal } from '../../auth.ts'
import { RequestRow } from '../answers/reads.ts'
import { Conditions, filterOf } from '../answers/request-filter.ts'
import { reading } from '../read-store.ts'
import { type AdminRoute, route } from '../route.ts'
import { DAY_MS } from '../window.ts'
import type { RequestRouteDeps } from './requests.ts'

export interface TailDeps extends RequestRouteDeps {
  readonly timing?: Partial<TailTiming>
}

interface TailTiming {
  /** Time between two queries of the read model. */
  readonly pollMs: number
  /** After this time without an event the stream sends a comment, so that proxies do not time out. */
  readonly heartbeatMs: number
  /** A stream ends after this; clients reconnect by themselves, to any instance. */
  readonly lifetimeMs: number
}

const TIMING: TailTiming = { pollMs: 1_000, heartbeatMs: 15_000, lifetimeMs: 3_600_000 }
/** Per instance: each stream costs Postgres a query a second. */
export const MAX_STREAMS = 32
/** Share of one tenant's keys, so that others find room. Streams of keys with `*` do not count. */
export const MOST_OF_A_TENANT = 16
/** Time between two queries of a stream that is behind. */
const CATCH_UP_MS = 50
const RESUME = 'Last-Event-ID'
const PLACE = /^\d{1,5}\.\d{1,15}(-\d{1,5}\.\d{1,15}){0,1023}$/
const HEADERS = { 'cache-control': 'no-cache', 'x-accel-buffering': 'no' }

/** `0.17-1.4`: of each partition the first offset that was not sent yet. */
const writtenPlace = (place: LogPlace): string =>
  [...place].map(([partition, next]) => `${partition}.${next}`).join('-')

const placeOf = (headers: Headers): LogPlace | null => {
  const text = headers.get(RESUME)
  if (text === null || text === '') return null
  if (!PLACE.test(text))
    throw new GatewayError('invalid_request', `"${RESUME}" must be the id of an event of this stream`, {
      param: RESUME,
    })
  return new Map(text.split('-').map((part) => part.split('.').map(Number) as [number, number]))
}

/** One event for each row; the id is the place after it. */
const framesOf = (rows: readonly TailRow[], from: LogPlace): string => {
  const place = new Map(from)
  return rows
    .map(({ request, partition, offset }) => {
      place.set(partition, offset + 1)
      return `id: ${writtenPlace(place)}\n${sseFrame(JSON.stringify(request))}`
    })
    .join('')
}

interface Tail {
  readonly from: LogPlace
  /** The filter by what the client may see at this moment; null: nothing any more. */
  filter(): RequestFilter | null
  readonly signal: AbortSignal
}

async function* follow({ requests }: TailDeps, timing: TailTiming, tail: Tail): AsyncGenerator<string, void> {
  const { signal } = tail
  let place = tail.from
  let sentMs = performance.now()
  yield 'retry: 2000\n\n'
  while (!signal.aborted) {
    const filter = tail.filter()
    if (filter === null) {
      yield 'data: {"reason":"who asks may no longer"}\nevent: end\n\n'
      return
    }
    // While Postgres is unavailable nothing is missed: the place stays.
    const found = await requests.since(place, filter).catch(() => null)
    const text = found === null ? ': the read store cannot be read now\n\n' : framesOf(found.rows, place)
    const isQuiet = text === '' && performance.now() - sentMs < timing.heartbeatMs
    if (!isQuiet) {
      sentMs = performance.now()
      yield text === '' ? ': nothing new\n\n' : text
    }
    place = found?.reached ?? place
    await sleep(found?.isBehind === true ? Math.min(CATCH_UP_MS, timing.pollMs) : timing.pollMs, signal)
  }
}

/** Ends together with the signal of its client, in either order. */
const untilDisconnect = (text: AsyncGenerator<string, void>, leave: () => void): AsyncIterable<string> => ({
  [Symbol.asyncIterator]: () => ({
    async next() {
      try {
        const step = await text.next()
        if (step.done === true) leave()
        return step
      } catch (error) {
        leave()
        throw error
      }
    },
    async return() {
      leave()
      return text.return()
    },
  }),
})

/** Rows for `AdminDeps.furtherRoutes`. */
export const tailRoutes = (deps: TailDeps): readonly AdminRoute[] => {
  const timing = { ...TIMING, ...deps.timing }
  /** The tenant of each counted stream, null for the others. */
  const streams = new Map<AbortController, string | null>()
  const ofTenant = (tenantId: string): number => [...streams.values()].filter((each) => each === tenantId).length
  const openStream = (principal: Principal): AbortController => {
    const tenantId = isSuperuser(principal) ? null : principal.tenantId
    const isTooMany = tenantId !== null && ofTenant(tenantId) >= MOST_OF_A_TENANT
    if (isTooMany || streams.size >= MAX_STREAMS) {
      const clients = isTooMany ? `${MOST_OF_A_TENANT} clients of this tenant` : `${MAX_STREAMS} clients`
      throw new GatewayError('rate_limited', `this instance follows for ${clients} already`, { retryAfterS: 10 })
    }
    const leaving = new AbortController()
    streams.set(leaving, tenantId)
    const ending = setTimeout(() => leaving.abort(), timing.lifetimeMs)
    leaving.signal.addEventListener('abort', () => {
      clearTimeout(ending)
      streams.delete(leaving)
    })
    return leaving
  }
  return [
    route({
      method: 'GET',
      path: '/requests/stream',
      scopes: ['usage:read'],
      summary: 'Requests as they are settled, as server-sent events',
      events: true,
      query: t.Object(Conditions),
      answer: RequestRow,
      async handle({ request, query, principal, principalNow }) {
        const filterFor = (caller: Principal): RequestFilter => ({
          ...filterOf(query, caller, deps),
          fromMs: deps.nowMs() - DAY_MS,
          toMs: deps.nowMs() + DAY_MS,
        })
        filterFor(principal) // an invalid query fails at once
        const filter = (): RequestFilter | null => {
          const caller = principalNow()
          try {
            return caller === null ? null : filterFor(caller)
          } catch {
            return null // the named tenant is not visible any more, or deleted
          }
        }
        const from = placeOf(request.headers) ?? (await reading(deps.requests.place()))
        const leaving = openStream(principal)
        const { signal } = leaving
        const text = follow(deps, timing, { from, filter, signal })
        return { body: null, headers: HEADERS, pieces: untilDisconnect(text, () => leaving.abort()) }
      },
    }),
  ]
}
