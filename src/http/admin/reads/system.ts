// `/admin/v1/system`: the running program, its state and that of its dependencies, and its settings.
import { Nullable } from '../../../domain/kernel/fields.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { LiveState } from '../../../state/port.ts'
import type { ProjectionView } from '../../metrics/telemetry.ts'
import { type Build, type CheckResult, type Readiness, statusWordOf } from '../../operations.ts'
import { Moment, ProviderStates } from '../answers/health.ts'
import { type AdminRoute, route } from '../route.ts'
import { type ProviderStateDeps, providerStates } from './overview.ts'

export interface SystemRouteDeps extends ProviderStateDeps {
  readonly live: LiveState
  readonly build: Build
  /** Which optional parts are configured: `{ log: 'embedded', database: 'embedded', redis: 'none' }`. */
  readonly components: Readonly<Record<string, string>>
  /** The readiness, as in `/ready`. */
  checkReadiness(): Promise<Readiness>
  /** Progress of the read models, by the worker's last reports. Rejects while Postgres is unavailable. */
  projections(): Promise<readonly ProjectionView[]>
  instanceCounts(): { readonly live: number; readonly diverged: number; readonly behindRecords: number }
  /** Id of this process start. */
  readonly instance: string
  /** The effective settings by path, secrets redacted. */
  readonly settings: Readonly<Record<string, unknown>>
  nowMs(): number
}

const Count = t.Integer({ minimum: 0 })
const Status = t.Union([t.Literal('ok'), t.Literal('degraded'), t.Literal('unavailable')])
const Dependency = t.Object({
  kind: t.String({ description: '`embedded`, `kafka`, `postgres`, `redis`; `none`: not configured' }),
  status: Nullable(Status, 'null: not configured'),
  detail: Nullable(t.String({ description: 'what is wrong' })),
})

const SystemAnswer = t.Object(
  {
    build: t.Object({
      name: t.String(),
      version: t.String(),
      commit: Nullable(t.String()),
      environment: t.String(),
    }),
    instance: t.String({ description: 'id of this process start' }),
    started_at: Moment,
    uptime_seconds: Count,
    runtime: t.Object({
      name: t.String(),
      version: t.String(),
      platform: t.String(),
      architecture: t.String(),
      memory_bytes: t.Integer({ minimum: 0, description: 'resident' }),
    }),
    status: Status,
    checks: t.Record(t.String(), t.String(), { description: 'as `/ready` shows them' }),
    dependencies: t.Object({
      log: Dependency,
      database: Dependency,
      redis: Dependency,
      worker: t.Object({
        status: Status,
        detail: Nullable(t.String()),
        read_models: Nullable(
          t.Array(
            t.Object({
              name: t.String(),
              lag_ms: t.Integer({ minimum: 0, description: 'age of the oldest record that it has not applied' }),
              behind_records: Count,
              poison_records: t.Integer({ minimum: 0, description: 'set aside' }),
              reported_ms_ago: t.Integer({ minimum: 0, description: 'much: no worker runs' }),
            }),
          ),
          'null: the database cannot be asked',
        ),
      }),
    }),
    control: t.Object({
      phase: t.String({ description: '`starting`, `live` or `stopped`' }),
      revision: t.String({ description: 'the newest decision that is folded here' }),
      offset: Count,
      stale_ms: t.Integer({ description: 'since the end of the log was last known and folded' }),
    }),
    instances: t.Object({ live: Count, diverged: Count, behind_records: Count }),
    providers: ProviderStates,
    config: t.Record(t.String(), t.Unknown(), { description: 'the effective settings, secrets redacted' }),
  },
  { title: 'System' },
)

const shownCheck = (result: CheckResult | undefined) => {
  const { text, ready }: CheckResult = result ?? { text: 'degraded: it was not looked at', ready: false }
  const colon = text.indexOf(': ')
  return {
    status: statusWordOf({ text, ready }),
    detail: text === 'ok' ? null : colon < 0 ? text : text.slice(colon + 2),
  }
}

const projectionViews = async (deps: SystemRouteDeps) => {
  const views = await deps.projections().catch(() => null) // the check of the database reports the failure
  return (
    views?.map(({ model, lagMs, behindRecords, poisonRecords, ageMs }) => ({
      name: model,
      lag_ms: Math.round(lagMs),
      behind_records: behindRecords,
      poison_records: poisonRecords,
      reported_ms_ago: Math.round(ageMs),
    })) ?? null
  )
}

const dependenciesOf = (
  checks: ReadonlyMap<string, CheckResult>,
  components: Readonly<Record<string, string>>,
  readModels: Awaited<ReturnType<typeof projectionViews>>,
) => {
  const dependency = (name: string) => {
    const kind = components[name] ?? 'none'
    return kind === 'none' ? { kind, status: null, detail: null } : { kind, ...shownCheck(checks.get(name)) }
  }
  return {
    log: dependency('log'),
    database: dependency('database'),
    redis: dependency('redis'),
    worker: { ...shownCheck(checks.get('worker')), read_models: readModels },
  }
}

/** Rows for `AdminDeps.furtherRoutes`. */
export const systemRoutes = (deps: SystemRouteDeps): readonly AdminRoute[] => {
  const startedAtMs = deps.nowMs()
  const startedMs = performance.now()
  return [
    route({
      method: 'GET',
      path: '/system',
      scopes: ['usage:read'],
      summary: 'Build, uptime, runtime, what it depends on, providers, and the effective settings without secrets',
      query: t.Object({ tenant_id: t.Optional(t.String({ description: 'Accepted; the system is everybody’s.' })) }),
      answer: SystemAnswer,
      async handle() {
        const [{ status, checks }, readModels] = await Promise.all([deps.checkReadiness(), projectionViews(deps)])
        const { phase, tip, offset, staleMs } = deps.live.status()
        const { live, diverged, behindRecords } = deps.instanceCounts()
        return {
          body: {
            build: deps.build,
            instance: deps.instance,
            started_at: new Date(startedAtMs).toISOString(),
            uptime_seconds: Math.floor((performance.now() - startedMs) / 1_000),
            runtime: {
              name: 'bun',
              version: Bun.version,
              platform: process.platform,
              architecture: process.arch,
              memory_bytes: process.memoryUsage.rss(),
            },
            status,
            checks: Object.fromEntries([...checks].map(([name, { text }]) => [name, text])),
            dependencies: dependenciesOf(checks, deps.components, readModels),
            control: { phase, revision: tip, offset, stale_ms: Math.round(staleMs) },
            instances: { live, diverged, behind_records: behindRecords },
            providers: providerStates(deps),
            config: deps.settings,
          },
        }
      },
    }),
  ]
}
