// `/metrics`: a registry of its own. Labels come from closed sets, so that no caller can make the series grow.

import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Gauge, Registry } from '@prometheus-io/client'
import { isInForce } from '../../domain/steering/override-row.ts'
import { OVERRIDE_KINDS } from '../../domain/steering/override-target.ts'
import type { Limits } from '../../inference/limits/port.ts'
import type { Observed } from '../../inference/request/deps.ts'
import type { LoadGate } from '../../lib/event-loop/load-gate.ts'
import { wallMs } from '../../lib/time/wall-clock.ts'
import type { HealthBook } from '../../state/health/book.ts'
import { DEGRADATIONS, type LiveState } from '../../state/port.ts'
import type { InstanceCounts } from '../../upkeep/instances/instances.ts'
import { AUTH_EVENTS, type AuthEvent } from '../console-auth.ts'
import { budgetMetrics } from './budget-metrics.ts'
import { diskMetrics, processMetrics, projectionMetrics, sendingMetrics, traceMetrics } from './log-metrics.ts'
import { requestMetrics } from './request-metrics.ts'
import { readOnScrape, tally } from './tally.ts'
import type { Telemetry } from './telemetry.ts'

export interface MetricsDeps {
  readonly live: Pick<LiveState, 'status' | 'control'>
  /** Records of the spool that are not shipped or projected yet. */
  readonly spool: { backlog(): { readonly records: number; readonly bytes: number; readonly oldestMs: number | null } }
  readonly limits: Pick<Limits, 'status'>
  /** Requests in flight. */
  readonly inFlight: () => number
  readonly gate: Pick<LoadGate, 'refused' | 'perSecond'>
  readonly health: Pick<HealthBook, 'candidates'>
  readonly instanceCounts: () => InstanceCounts
  readonly build: { readonly version: string; readonly commit: string | null }
  readonly telemetry?: Telemetry
}

export interface Metrics {
  /** Counts one ended request. */
  observe(observed: Observed): void
  /** Counts an authentication event of the console. */
  countAuth(event: AuthEvent): void
  readonly contentType: string
  /** The text exposition. */
  text(): Promise<string>
  /** Every metric, for the documentation. */
  described(): readonly Described[]
}

export interface Described {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly labels: readonly string[]
}

/** Creates the registry, one for each app: two apps in a process share nothing. */
export const gatewayMetrics = (deps: MetricsDeps): Metrics => {
  const registry = new Registry()
  const registers = [registry]
  const observe = requestMetrics(registers)
  const auth = tally(
    registers,
    'gateway_dashboard_auth_events_total',
    'Set-ups, logins and logouts of the console, those that failed, and those that were refused unseen.',
    ['outcome'],
  )
  for (const event of AUTH_EVENTS) auth(0, event)
  gauges(registers, deps)
  healthGauges(registers, deps)
  instanceGauges(registers, deps)
  const { telemetry = {}, build } = deps
  diskMetrics(registers, telemetry)
  sendingMetrics(registers, telemetry)
  projectionMetrics(registers, telemetry)
  traceMetrics(registers, telemetry)
  budgetMetrics(registers, telemetry)
  processMetrics(registers, build)
  return {
    observe,
    countAuth: (event) => auth(1, event),
    contentType: registry.contentType,
    text: () => registry.metrics(),
    described: () =>
      registry.getMetricsAsArray().map((metric) => {
        const {
          name,
          type,
          help,
          labelNames = [],
        } = metric as unknown as Described & {
          labelNames?: readonly string[]
        }
        return { name, type, help, labels: labelNames }
      }),
  }
}

/** Values that are read on a scrape. */
const gauges = (registers: Registry[], { live, spool, limits, inFlight, gate }: MetricsDeps): void => {
  const gauge = (name: string, help: string, value: () => number) => readOnScrape(registers, name, help, value)
  const delay = monitorEventLoopDelay({ resolution: 20 })
  delay.enable()
  gauge('gateway_requests_in_flight', 'Requests being answered.', inFlight)
  gauge('gateway_spool_records', 'Outcomes not shipped or projected yet.', () => spool.backlog().records)
  gauge('gateway_spool_bytes', 'Bytes of those outcomes.', () => spool.backlog().bytes)
  gauge('gateway_log_lag_seconds', 'Age of the oldest outcome that is not shipped or projected yet.', () => {
    const { oldestMs } = spool.backlog()
    return (oldestMs ?? 0) / 1_000
  })
  gauge('gateway_control_offset', 'Next offset of the control log to fold.', () => live.status().offset)
  gauge(
    'gateway_control_staleness_seconds',
    'Since the end of the control log was last known and folded.',
    () => live.status().staleMs / 1_000,
  )
  gauge('gateway_control_lost_total', 'Decisions that another one came before.', () => live.status().counts.lost)
  gauge('gateway_control_poison_total', 'Control records that are unreadable, forged or malformed.', () => {
    const { unreadable, forged, malformed } = live.status().counts
    return unreadable + forged + malformed
  })
  gauge(
    'gateway_limits_degraded',
    '1 while rate limits that are meant to be shared are counted by this process alone.',
    () => (limits.status().degraded === null ? 0 : 1),
  )
  gauge(
    'gateway_limits_decided_alone_total',
    'Rate limit decisions of this process alone although they are meant to be shared.',
    () => limits.status().decidedAlone,
  )
  gauge('gateway_event_loop_delay_seconds', 'The 99th percentile since the last scrape.', () => {
    const seconds = delay.percentile(99) / 1e9
    delay.reset()
    return Number.isFinite(seconds) ? seconds : 0
  })
  gauge(
    'gateway_overload_refused_total',
    'Chat completions refused before anything was read, because the event loop was late or memory short.',
    () => gate.refused,
  )
  gauge(
    'gateway_overload_admitted_per_second',
    'Chat completions a second that are let in while the event loop is late or memory short; 0: no bound.',
    () => (Number.isFinite(gate.perSecond) ? gate.perSecond : 0),
  )
  new Gauge({
    name: 'gateway_overrides_in_force',
    help: 'Kill switches, blocks, caps and other overrides that hold now, by kind.',
    labelNames: ['kind'],
    registers,
    collect() {
      const counts = new Map<string, number>()
      const nowMs = wallMs()
      for (const [, row] of live.control.table('overrides').rows()) {
        if (isInForce(row, nowMs)) counts.set(row.kind, (counts.get(row.kind) ?? 0) + 1)
      }
      for (const kind of OVERRIDE_KINDS) this.set({ kind }, counts.get(kind) ?? 0)
    },
  })
}

/** Further providers share one label. */
const LABELLED_PROVIDERS = 200

/** Breakers and calls by provider. Labels are names of the registry, bounded in number. */
const healthGauges = (registers: Registry[], { health }: MetricsDeps): void => {
  const labelOf = (names: Set<string>, name: string): string => {
    if (names.size < LABELLED_PROVIDERS) names.add(name)
    return names.has(name) ? name : 'other'
  }
  new Gauge({
    name: 'gateway_breakers',
    help: 'Models that were called, by provider and the state of their circuit breaker.',
    labelNames: ['provider', 'state'],
    registers,
    collect() {
      this.reset()
      const names = new Set<string>()
      for (const { providerName, breaker } of health.candidates())
        this.inc({ provider: labelOf(names, providerName), state: breaker.state })
    },
  })
  new Gauge({
    name: 'gateway_provider_calls_in_flight',
    help: 'Calls to a provider under way.',
    labelNames: ['provider'],
    registers,
    collect() {
      this.reset()
      const names = new Set<string>()
      for (const { providerName, inFlight } of health.candidates())
        this.inc({ provider: labelOf(names, providerName) }, inFlight)
    },
  })
}

/** The position of this instance among the others, and whether its state is the newest. */
const instanceGauges = (registers: Registry[], { live, instanceCounts }: MetricsDeps): void => {
  const shown: readonly [string, string, keyof InstanceCounts][] = [
    ['gateway_instances', 'Live instances, with this one.', 'live'],
    [
      'gateway_instances_diverged',
      'Other live instances whose state differs at the same offset: an alarm.',
      'diverged',
    ],
    [
      'gateway_control_behind_records',
      'Control records that another instance has folded for some seconds and this one has not.',
      'behindRecords',
    ],
    [
      'gateway_instance_name_shared',
      '1 while another process announces itself under the name of this one: a data folder was copied.',
      'nameShared',
    ],
  ]
  for (const [name, help, count] of shown) {
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(instanceCounts()[count])
      },
    })
  }
  readOnScrape(
    registers,
    'gateway_clock_ahead_seconds',
    'How far the clock of this machine runs ahead of the log’s; negative: behind.',
    () => instanceCounts().clockAheadMs / 1_000,
  )
  new Gauge({
    name: 'gateway_control_degraded',
    help: '1 for the reason why the state of this instance may not be the newest.',
    labelNames: ['reason'],
    registers,
    collect() {
      const { degradation } = live.status()
      for (const reason of DEGRADATIONS) this.set({ reason }, reason === degradation ? 1 : 0)
    },
  })
}
