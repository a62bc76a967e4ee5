// Translates the query of a usage read: the tenant, the window, the interval and the prices.
import type { UsageFilter } from '../../../../projections/usage/query.ts'
import type { ControlReader } from '../../../domain/control.ts'
import { correctionsOf } from '../../../domain/registry/price-correction.ts'
import { type Static, t } from '../../../lib/schema/schema.ts'
import { GatewayError } from '../../../wire/errors.ts'
import type { Principal } from '../../auth.ts'
import { type TimeWindow, Window, windowOf } from '../window.ts'
import { Interval } from './reads.ts'
import { Conditions, tenantFilter } from './request-filter.ts'

export interface UsageFilterDeps {
  /** The current names of providers and models. */
  readonly live: { readonly control: ControlReader }
  nowMs(): number
}

/** The prices of a response. */
export const shownCost = ({ corrections = null }: UsageFilter): 'booked' | 'corrected' =>
  corrections === null ? 'booked' : 'corrected'

const Text = t.Optional(t.String({ minLength: 1, maxLength: 256 }))

/** Parameters of every read of usage. */
export const UsageQuery = {
  ...Window,
  tenant_id: Text,
  provider: Text,
  model: Text,
  cost: t.Optional(
    t.Union([t.Literal('booked'), t.Literal('corrected')], {
      description: 'At the prices of the time (`booked`, the default), or as corrected since (`/prices/corrections`).',
    }),
  ),
}
const Known = t.Object(UsageQuery)
/**
 * Parameters that narrow the request log alone. Ignored here, they would give one key or outcome the figures of all.
 */
const OF_REQUESTS = Object.keys(Conditions).filter((name) => !Object.hasOwn(UsageQuery, name))

/** The parameter of reads that return a series. */
export const IntervalQuery = {
  interval: t.Optional(
    t.Union(Interval.anyOf, {
      description:
        'Width of a point; weeks begin on Monday. By default the smallest that gives at most 300 points; more ' +
        'than 2,000 are refused.',
    }),
  ),
}

/**
 * The current name of what the text names, by id or in any case; else the text itself: what no longer exists is stored
 * by its name.
 */
const nameOf = (
  control: ControlReader,
  table: 'providers' | 'models',
  requested: string | undefined,
): string | null => {
  if (requested === undefined) return null
  const byId = control.table(table).get(requested)
  if (byId !== undefined) return byId.name
  const wanted = requested.toLowerCase()
  for (const [, { name }] of control.table(table).rows()) if (name.toLowerCase() === wanted) return name
  return requested
}

/** The filter of a query. Throws 400 or 404 naming the parameter. */
export const usageFilterOf = (
  query: Static<typeof Known>,
  principal: Principal,
  { live, nowMs }: UsageFilterDeps,
): UsageFilter => {
  const param = OF_REQUESTS.find((name) => Object.hasOwn(query, name))
  if (param !== undefined)
    throw new GatewayError(
      'invalid_request',
      `"${param}" narrows /requests and /errors only; usage is broken down by "group_by" of /usage/summary`,
      { param },
    )
  return {
    tenantId: tenantFilter(principal, query.tenant_id),
    provider: nameOf(live.control, 'providers', query.provider),
    model: nameOf(live.control, 'models', query.model),
    corrections: query.cost === 'corrected' ? correctionsOf(live.control) : null,
    ...windowOf(query, nowMs()),
  }
}

const MINUTE_MS = 60_000
const INTERVALS = {
  '1m': MINUTE_MS,
  '5m': 5 * MINUTE_MS,
  '1h': 60 * MINUTE_MS,
  '1d': 1_440 * MINUTE_MS,
  '1w': 10_080 * MINUTE_MS,
}
export type IntervalName = keyof typeof INTERVALS

const WANTED_POINTS = 300
export const MAX_POINTS = 2_000

/** The most intervals that a window touches, wherever in an interval it begins. */
const pointsOf = ({ fromMs, toMs }: TimeWindow, widthMs: number): number =>
  Math.ceil(toMs / widthMs) - Math.floor(fromMs / widthMs)

/**
 * The requested interval, else the smallest with at most 300 points (a week when none has). Throws 400 for a series of
 * too many points.
 */
export const intervalOf = (
  requested: IntervalName | undefined,
  window: TimeWindow,
): { readonly name: IntervalName; readonly widthMs: number } => {
  const names = Object.keys(INTERVALS) as IntervalName[]
  const name = requested ?? names.find((each) => pointsOf(window, INTERVALS[each]) <= WANTED_POINTS) ?? '1w'
  const widthMs = INTERVALS[name]
  const points = pointsOf(window, widthMs)
  if (points <= MAX_POINTS) return { name, widthMs }
  throw new GatewayError(
    'invalid_request',
    requested === undefined
      ? `the window is too long for a series: even weeks would be ${points} points, and at most ${MAX_POINTS} are shown`
      : `"interval" ${name} would be ${points} points in this window, at most ${MAX_POINTS} are shown: ask for a ` +
          'wider interval or a shorter window',
    { param: requested === undefined ? 'from' : 'interval' },
  )
}
