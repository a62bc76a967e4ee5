// The requests of tests/bench/reads.ts: every read route with its defaults, each filter of the request log, and exports
// and the stream up to their first byte.
import type { World } from './world.ts'

export interface Measured {
  readonly name: string
  /** The path of the nth call. */
  path(n: number): string
  readonly aimMs: number
  /** With the key of one tenant instead of a superuser's. */
  readonly asTenant?: true
  /** Read up to the first byte of the body. */
  readonly firstByte?: true
}

/** What is in the tables. */
export interface Known {
  readonly world: World
  /** Ids of requests of all days. */
  readonly ids: readonly string[]
  readonly labels: readonly string[]
  readonly user: string
  /** Days with outcomes, today included. */
  readonly days: number
}

const AIM_MS = 200
const SERIES_AIM_MS = 300
/** A filter over a month: the search takes a second at most, and the answer says how far it came. */
const SEARCH_AIM_MS = 2_000

const always = (path: string, name = path, aimMs = AIM_MS): Measured => ({ name, path: () => path, aimMs })
const of = <Item>(items: readonly Item[], n: number): Item => items[n % items.length]!

const DEFAULTS = [
  '/overview',
  '/system',
  '/providers',
  '/providers/health',
  '/models',
  '/usage/summary',
  '/usage/series',
  '/requests',
  '/errors',
  '/scores',
  '/audit',
  '/guardrails',
  '/budgets',
  '/overrides',
  '/feedback',
  '/prices/corrections',
]
const USAGE_OF_30_DAYS = ['/overview', '/usage/summary']

/** The filters of the request log, one by one. */
const filtersOf = ({ world, user, labels, ids }: Known): readonly string[] => {
  const { models, tenants, endpoints } = world
  return [
    `tenant_id=${tenants[0]!.id}`,
    'outcome=success',
    'outcome=interrupted',
    'outcome=orphaned',
    `provider=${models[0]!.provider.name}`,
    `provider=${models[0]!.provider.id}`,
    'provider=nobody',
    `model=${models[0]!.name}`,
    'model=nobody',
    'error_code=upstream_error',
    'error_code=content_filtered',
    'status_min=500',
    `key=${tenants[0]!.keys[0]}`,
    `key=${tenants.at(-1)!.keys.at(-1)}`,
    `policy=${tenants[0]!.policy}`,
    `endpoint=${endpoints.at(-1)}`,
    `user=${user}`,
    'search=model-1',
    `search=${labels[0]}`,
    `search=${ids[0]!.slice(-12)}`,
    'search=nowhere',
    'limit=1000',
    'offset=5000',
    'offset=100000',
  ]
}

export const measuredRoutes = (known: Known): readonly Measured[] => {
  const { world, ids, labels, days } = known
  const filters = filtersOf(known)
  const wide = `${Math.min(30, days) * 24}h`
  return [
    ...DEFAULTS.map((path) => always(path)),
    always(`/providers/health?provider_id=${world.models[0]!.provider.id}`, '/providers/health?provider_id='),
    { name: '/requests/{id}', path: (n) => `/requests/${of(ids, n)}`, aimMs: AIM_MS },
    { name: '/requests/{label}', path: (n) => `/requests/${of(labels, n)}`, aimMs: AIM_MS },
    { name: '/requests/{id}/explain', path: (n) => `/requests/${of(world.served, n)}/explain`, aimMs: AIM_MS },
    always(`/usage/series?from=${wide}`, undefined, SERIES_AIM_MS),
    always(`/usage/series?from=${wide}&model=${world.models[0]!.name}`, undefined, SERIES_AIM_MS),
    ...USAGE_OF_30_DAYS.map((path) => always(`${path}?from=${wide}`, undefined, SERIES_AIM_MS)),
    ...['/overview', '/usage/summary', '/usage/series', '/requests', '/errors', '/audit', '/feedback'].map(
      (path): Measured => ({ ...always(path, `${path} (a tenant's key)`), asTenant: true }),
    ),
    ...['/requests?', '/usage/summary?', '/usage/series?', '/audit?', '/errors?'].map(
      (path): Measured => ({ ...always(`${path}format=csv`), firstByte: true }),
    ),
    { ...always('/requests/stream'), firstByte: true },
    ...filters.map((filter) => always(`/requests?${filter}`)),
    ...['error_code=upstream_error', 'search=model-1', `provider=${world.models[0]!.provider.name}`].map((filter) =>
      always(`/errors?${filter}`),
    ),
    always(`/requests?from=${wide}`),
    always(`/errors?from=${wide}`, undefined, SEARCH_AIM_MS),
    ...filters.map((filter) => always(`/requests?from=${wide}&${filter}`, undefined, SEARCH_AIM_MS)),
  ]
}
