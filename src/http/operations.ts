// The operations surface: no credential, no secrets. Liveness, readiness, version and metrics.
import { Elysia } from 'elysia'
import { type CredentialSettings, isTooStale } from '../entry/authenticate.ts'
import type { InferenceDeps } from '../inference/request/deps.ts'
import type { Steering } from '../state/indexes/steering.ts'
import type { Catalogue, LiveState } from '../state/port.ts'
import { errorBody, GatewayError } from '../wire/errors.ts'
import { errorGatewayJson, errorHeaders, identityHeaders } from './envelope.ts'
import type { Metrics } from './metrics/metrics.ts'
import { pageHeaders } from './page-headers.ts'
import { contextOf } from './request-context.ts'

/** What a check shows: one of three forms, also where it makes the instance not ready. */
export type CheckText = 'ok' | `degraded: ${string}` | `${number} configured`

/** One line of `/ready`. */
export interface CheckResult {
  /** Never an address with a password. */
  readonly text: CheckText
  /** False: the instance is not ready. */
  readonly ready: boolean
}

export interface ReadinessCheck {
  readonly name: string
  run(): CheckResult | Promise<CheckResult>
}

export interface Build {
  readonly name: string
  readonly version: string
  /** Commit that it was built from, or null. */
  readonly commit: string | null
  readonly environment: string
}

export interface OperationsDeps {
  readonly live: LiveState
  readonly catalogue: Catalogue
  readonly steering: Pick<Steering, 'overrides'>
  nowMs(): number
  readonly spool: Pick<InferenceDeps['spool'], 'admission' | 'backlog'>
  readonly inference: Pick<CredentialSettings, 'maxStalenessMs'>
  readonly build: Build
  /** Which optional parts are configured: `{ log: 'embedded', database: 'embedded', redis: 'none' }`. */
  readonly components: Readonly<Record<string, string>>
  /** Checks beyond those of the control state, the spool and the providers: log, Postgres, Redis. */
  readonly readiness: readonly ReadinessCheck[]
  readonly prometheusEnabled: boolean
  /** Whether `/openapi.json`, `/docs` and `/schemas` are served. */
  readonly docsEnabled: boolean
  /** Background tasks and worker threads of this process. */
  readonly backgroundUnits: () => number
}

/** The tenant id of no tenant: only what applies to all tenants is found under it. */
const NO_TENANT = ''
const CHECK_MS = 2_000
const OK: CheckResult = { text: 'ok', ready: true }

type ReadinessDeps = Pick<
  OperationsDeps,
  'live' | 'catalogue' | 'steering' | 'spool' | 'inference' | 'nowMs' | 'readiness'
>

/** The result of all checks. */
export interface Readiness {
  readonly status: 'ok' | 'degraded' | 'unavailable'
  readonly checks: ReadonlyMap<string, CheckResult>
}

/** Runs all checks that this instance needs, within 2 s. */
export const readinessChecker = (deps: ReadinessDeps): (() => Promise<Readiness>) => {
  const checks = [...ownChecks(deps), ...deps.readiness]
  return async () => {
    const results = await Promise.all(checks.map(withinTime))
    return { status: statusOf(results), checks: new Map(results) }
  }
}

/** Returned without running the checks, since the process closes its dependencies. */
const STOPPING: Readiness = {
  status: 'unavailable',
  checks: new Map([['process', { text: 'degraded: stopping', ready: false }]]),
}

/** The checks with one more: load balancers must not choose a process yet whose request path is not compiled. */
const stillCold = ({ checks }: Readiness): Readiness => ({
  status: 'unavailable',
  checks: new Map([...checks, ['process', { text: 'degraded: the request path is being compiled', ready: false }]]),
})

const ownChecks = ({ live, catalogue, steering, spool, inference, nowMs }: ReadinessDeps): ReadinessCheck[] => [
  {
    name: 'control',
    run() {
      const { phase, serves, degraded, staleMs } = live.status()
      if (phase === 'stopped')
        return { text: `degraded: the control log is not followed: ${degraded ?? phase}`, ready: false }
      if (!serves) return { text: 'degraded: the control log is being read', ready: false }
      if (isTooStale(live, inference.maxStalenessMs)) return refusesFor(staleMs, inference.maxStalenessMs)
      return degraded === null ? OK : { text: `degraded: ${degraded}`, ready: true }
    },
  },
  {
    name: 'spool',
    run: () => (spool.admission.open ? OK : { text: `degraded: ${spool.admission.reason}`, ready: false }),
  },
  {
    name: 'providers',
    run() {
      const killed = steering.overrides(NO_TENANT, nowMs()).killedProviderIds
      const usable = catalogue.usableProviders(killed)
      const count = `${usable} configured` as const
      if (usable > 0 && killed.size === 0) return { text: count, ready: true }
      const reasons = usable === 0 ? ['no provider can be called'] : []
      if (killed.size > 0) reasons.push(`${killed.size} killed`)
      return { text: `degraded: ${[count, ...reasons].join(', ')}`, ready: usable > 0 }
    },
  },
]

/** This instance refuses every request that needs a key; other instances may serve them. */
const refusesFor = (staleMs: number, maxStalenessMs: number | null): CheckResult => {
  const confirmed = `the end of the control log was last confirmed ${Math.floor(staleMs / 1_000)} s ago`
  const limit = `auth.max_staleness: ${(maxStalenessMs ?? 0) / 1_000} s`
  return { text: `degraded: requests are refused, ${confirmed} (${limit})`, ready: false }
}

const withinTime = async ({ name, run }: ReadinessCheck): Promise<readonly [string, CheckResult]> => {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<CheckResult>((resolve) => {
    timer = setTimeout(resolve, CHECK_MS, { text: `degraded: no answer within ${CHECK_MS / 1_000} s`, ready: false })
  })
  try {
    return [name, await Promise.race([Promise.resolve(run()), late])]
  } catch {
    // The message of a driver may hold an address with a password: it goes to the diagnostics, not to the public page.
    return [name, { text: 'degraded: the check failed', ready: false }]
  } finally {
    clearTimeout(timer)
  }
}

const PUBLIC_PATHS = [
  'GET /health',
  'GET /ready',
  'GET /version',
  'POST /v1/chat/completions',
  'GET /v1/models',
  'GET /v1/models/{model}',
  'POST /v1/feedback',
]

const STYLE =
  'body{font:16px/1.5 system-ui;margin:3rem auto;max-width:40rem;padding:0 1rem}' +
  'code{font-family:ui-monospace,monospace}'
const PAGE_HEADERS = pageHeaders(STYLE)

const page = (name: string, paths: readonly string[]): string =>
  `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${name}</title>` +
  `<meta name="viewport" content="width=device-width"><style>${STYLE}</style></head>` +
  `<body><h1>${name}</h1><p>A model gateway. Point an OpenAI SDK at <code>/v1</code>.</p>` +
  `<ul>${paths.map((path) => `<li><code>${path}</code></li>`).join('')}</ul></body></html>`

const WEIGHT = /^q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/i

/**
 * Weight of a media type, 0 to 1; an invalid weight is 0. Null: the header does not name it. Ranges such as `text/*` do
 * not count.
 */
const weightOf = (accept: string, type: string): number | null => {
  let most: number | null = null
  for (const range of accept.split(',')) {
    const [named, ...parameters] = range.split(';').map((part) => part.trim())
    if (named!.toLowerCase() !== type) continue
    const quality = parameters.find((parameter) => /^q\s*=/i.test(parameter))
    const weight = quality === undefined ? 1 : Number(WEIGHT.exec(quality)?.[1] ?? 0)
    most = Math.max(most ?? 0, weight)
  }
  return most
}

/**
 * Browsers name `text/html`; curl and SDKs send `*` or JSON. A client that prefers JSON, or excludes HTML (`q=0`), gets
 * JSON.
 */
const wantsHtml = (accept: string | null): boolean => {
  const html = weightOf(accept ?? '', 'text/html') ?? 0
  return html > 0 && html >= (weightOf(accept ?? '', 'application/json') ?? 0)
}

/** Activity of the process. */
export interface ProcessActivity {
  /** Requests in progress. */
  inFlight(): number
  isStopping(): boolean
  /** The request path is compiled. */
  isWarm(): boolean
}

export const operationsRoutes = (deps: OperationsDeps, metrics: Metrics, activity: ProcessActivity) => {
  const startedMs = performance.now()
  const checkReadiness = readinessChecker(deps)
  const { build } = deps
  const paths = [...PUBLIC_PATHS]
  if (deps.docsEnabled) paths.push('GET /openapi.json', 'GET /docs', 'GET /schemas')
  if (deps.prometheusEnabled) paths.push('GET /metrics')
  const json = (request: Request, body: unknown, status = 200, more: Record<string, string> = {}): Response =>
    Response.json(body, { status, headers: { ...identityHeaders(contextOf(request)), ...more } })

  const health = ({ request }: { request: Request }) => json(request, { status: 'ok', components: deps.components })
  const readiness = async (): Promise<Readiness> => {
    if (activity.isStopping()) return STOPPING
    const checked = await checkReadiness()
    return activity.isWarm() ? checked : stillCold(checked)
  }
  const ready = async ({ request }: { request: Request }) => {
    const { status, checks } = await readiness()
    const failed = [...checks].filter(([, result]) => !result.ready).map(([name]) => name)
    const body = { status, checks: Object.fromEntries([...checks].map(([name, { text }]) => [name, text])) }
    if (failed.length === 0) return json(request, body)
    const context = contextOf(request)
    const error = new GatewayError('provider_unavailable', `not ready: ${failed.join(', ')}`, { status: 503 })
    const gateway: unknown = JSON.parse(errorGatewayJson(context))
    return Response.json(
      { ...body, error: errorBody(error), gateway },
      { status: error.status, headers: errorHeaders(error, context) },
    )
  }
  const app = new Elysia({ name: 'operations' })
    .get('/', ({ request }) => {
      const vary = { vary: 'accept' }
      if (!wantsHtml(request.headers.get('accept')))
        return json(request, { name: build.name, endpoints: paths }, 200, vary)
      const headers = { ...PAGE_HEADERS, ...identityHeaders(contextOf(request)), ...vary }
      return new Response(page(build.name, paths), { headers })
    })
    .get('/health', health)
    .get('/healthz', health)
    .get('/ready', ready)
    .get('/readiness', ready)
    .get('/version', ({ request }) =>
      json(request, {
        ...build,
        runtime: `bun ${Bun.version}`,
        uptime_seconds: Math.floor((performance.now() - startedMs) / 1_000),
        goroutines: activity.inFlight() + deps.backgroundUnits(),
      }),
    )
  if (!deps.prometheusEnabled) return app
  return app.get('/metrics', async ({ request }) => {
    const headers = { 'content-type': metrics.contentType, ...identityHeaders(contextOf(request)) }
    return new Response(await metrics.text(), { headers })
  })
}

/** The status of one check in one word. */
export const statusWordOf = ({ text, ready }: CheckResult): Readiness['status'] =>
  ready ? (text.startsWith('degraded') ? 'degraded' : 'ok') : 'unavailable'

const statusOf = (results: readonly (readonly [string, CheckResult])[]): Readiness['status'] => {
  const words = results.map(([, result]) => statusWordOf(result))
  return words.find((word) => word === 'unavailable') ?? words.find((word) => word === 'degraded') ?? 'ok'
}
