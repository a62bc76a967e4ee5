// What this process reports of itself: its build, the parts it is made of, and whether they are there.

import { within } from '../../projections/database.ts'
import { allowsPrivate, type Config, redacted, settingMs } from '../config/schema.ts'
import type { InstanceDeps } from '../http/admin/reads/instances.ts'
import { systemRoutes } from '../http/admin/reads/system.ts'
import { type OperationsDeps, type ReadinessCheck, readinessChecker } from '../http/operations.ts'
import type { Limits } from '../inference/limits/port.ts'
import { wallMs } from '../lib/time/wall-clock.ts'
import type { InstanceCounts, Instances } from '../upkeep/instances/instances.ts'
import type { EgressWatch } from '../upkeep/watch/egress-watch.ts'
import type { Analytics } from './analytics.ts'
import type { ControlPlane } from './control-plane.ts'
import type { HealthParts } from './health.ts'
import type { Outcomes } from './outcomes.ts'
import { type Environment, isKafka } from './settings.ts'
import { projectionViews } from './telemetry.ts'

export interface OperationsParts {
  readonly config: Config
  readonly env: Environment
  readonly version: string
  readonly control: ControlPlane
  readonly outcomes: Outcomes
  readonly analytics: Analytics
  readonly health: Pick<HealthParts, 'healthOf'>
  readonly limits: Limits
  readonly egress: Pick<EgressWatch, 'problem'>
  instances(): Instances | null
}

export type Operations = Pick<OperationsDeps, 'build' | 'components' | 'readiness'> &
  Pick<InstanceDeps, 'liveInstances' | 'instanceStandings'> & { instanceCounts(): InstanceCounts }

const REPORTS_WITHIN_MS = 1_500
const ALONE: InstanceCounts = { live: 1, diverged: 0, behindRecords: 0, nameShared: 0, clockAheadMs: 0 }

export const operationsOf = (parts: OperationsParts): Operations => {
  const { config, env, version, analytics } = parts
  return {
    build: { name: 'gatelog', version, commit: env.GATEWAY_COMMIT ?? null, environment: config.environment },
    components: {
      log: isKafka(config) ? 'kafka' : 'embedded',
      database: config.database.url === null ? 'embedded' : 'postgres',
      redis: config.redis.url === null ? 'none' : 'redis',
    },
    readiness: [...analytics.readiness, ...readinessOf(parts)],
    instanceCounts: () => parts.instances()?.counts() ?? ALONE,
    instanceStandings: () => parts.instances()?.standings() ?? [],
    liveInstances: () =>
      parts
        .instances()
        ?.list()
        .map(({ instance }) => instance) ?? [parts.outcomes.spool.instance],
  }
}

/**
 * Parts whose loss is a degradation, not an outage: the log (inference goes on by the spool), Redis, an alarm of the
 * instances, an upstream that the egress rules refuse.
 */
const readinessOf = ({ config, control, outcomes, instances, limits, egress }: OperationsParts): ReadinessCheck[] => {
  const degradedBy = (name: string, problem: () => string | null | Promise<string | null>): ReadinessCheck => ({
    name,
    async run() {
      const text = await problem()
      return { text: text === null ? 'ok' : `degraded: ${text}`, ready: true }
    },
  })
  const log = () => {
    const { ok, detail } = control.log.health()
    return ok ? (outcomes.sender()?.problem ?? null) : detail
  }
  const checks = [
    degradedBy('log', log),
    degradedBy('instances', () => instances()?.nameShared() ?? instances()?.alarm() ?? instances()?.behind() ?? null),
    degradedBy('clock', () => instances()?.clockProblem() ?? null),
  ]
  if (!allowsPrivate(config)) checks.push(degradedBy('egress', () => egress.problem()))
  return config.redis.url === null ? checks : [...checks, degradedBy('redis', () => limits.status().degraded)]
}

/** The route that shows it. */
export const systemRoutesOf = (parts: OperationsParts, operations: Operations) => {
  const { config, control, outcomes, analytics, health } = parts
  const { live, catalogue, steering } = control
  const nowMs = wallMs
  const inference = { maxStalenessMs: settingMs(config.auth.max_staleness) }
  const { readiness } = operations
  const checked = { live, catalogue, steering, spool: outcomes.spool, inference, nowMs, readiness }
  return systemRoutes({
    ...operations,
    live,
    checkReadiness: readinessChecker(checked),
    projections: () => within(projectionViews(analytics.sql), REPORTS_WITHIN_MS),
    instance: outcomes.spool.instance,
    settings: redacted(config),
    healthOf: (id) => health.healthOf(id),
    adapterReady: ({ id }) => catalogue.adapterReady(id),
    nowMs,
  })
}
