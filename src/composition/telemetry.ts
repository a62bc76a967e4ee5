// Telemetry put together: what `/metrics` reads of the parts that `http/` does not see, and traces.
import type { Sql } from '../../projections/database.ts'
import { readStatus } from '../../projections/status.ts'
import { isCollectorUrl } from '../config/addresses.ts'
import type { Config } from '../config/schema.ts'
import type { ProjectionView, SendingView, Telemetry } from '../http/metrics/telemetry.ts'
import { openTraces, type Traces } from '../inference/request/trace.ts'
import { headerPairs } from '../lib/http/header-pairs.ts'
import { createDialer } from '../lib/http-client/http-client.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import type { SenderStatus } from '../log/sender/thread.ts'
import type { LocalSpool } from '../log/spool/spool.ts'
import type { Budgets } from '../state/budgets/budgets.ts'
import { openTraceExporter, type TraceExporter } from '../upkeep/watch/trace-exporter.ts'
import type { Environment } from './settings.ts'

/** The progress of the read models, by the worker's last reports. Rejects while Postgres is not reachable. */
export const projectionViews = async (sql: Sql): Promise<readonly ProjectionView[]> =>
  (await readStatus(sql)).map(({ model, lag_ms, behind_records, poison, age_ms }) => ({
    model,
    lagMs: Number(lag_ms),
    behindRecords: Number(behind_records),
    poisonRecords: Number(poison),
    ageMs: Number(age_ms),
  }))

/** All spools that are shipped, together. Null where nothing is shipped: embedded, or not yet begun. */
export const sendingView = (status: SenderStatus | null): SendingView | null => {
  if (status === null) return null
  const sum = (of: 'shipped' | 'resent' | 'refused' | 'damagedBytes') =>
    status.spools.reduce((total, spool) => total + spool[of], 0)
  return {
    stuck: status.problem !== null,
    shipped: sum('shipped'),
    resent: sum('resent'),
    refused: sum('refused'),
    damagedBytes: sum('damagedBytes'),
    lagMs: Math.max(0, ...status.spools.map(({ lagMs }) => lagMs)),
  }
}

export interface Tracing {
  readonly traces: Traces
  readonly exporter: TraceExporter
  close(): Promise<void>
}

/** Traces to the collector that the settings name, or that the usual variables of OpenTelemetry do. Null: off. */
export const openTracing = (deps: {
  readonly config: Config
  readonly env: Environment
  readonly diagnostics: Diagnostics
  readonly version: string
}): Tracing | null => {
  const { config, env, diagnostics, version } = deps
  const url = tracesUrl(config, env)
  if (url === null) return null
  if (!isCollectorUrl(url)) {
    // Only a warning: many programs read this variable, so a wrong value must not stop a start.
    diagnostics.warn('traces_off', {
      why: 'OTEL_EXPORTER_OTLP_(TRACES_)ENDPOINT is no URL such as http://collector:4318',
    })
    return null
  }
  // Its address comes from the settings, as those of Postgres and Redis: it usually stands on a private address.
  const dialer = createDialer({ allowPrivate: true })
  const resource = {
    'service.name': env.OTEL_SERVICE_NAME ?? 'gatelog',
    'service.version': version,
    'deployment.environment.name': config.environment,
  }
  const headers = headersOf(
    config.telemetry.otlp_headers ?? env.OTEL_EXPORTER_OTLP_TRACES_HEADERS ?? env.OTEL_EXPORTER_OTLP_HEADERS ?? '',
  )
  const exporter = openTraceExporter({ url, headers, resource, version, dial: dialer.dial, diagnostics })
  const { trace_sample_percent: samplePercent, trace_upstream: propagate } = config.telemetry
  return {
    traces: openTraces({ samplePercent, propagate, take: (trace) => exporter.take(trace) }),
    exporter,
    async close() {
      await exporter.close()
      dialer.close()
    },
  }
}

/** The setting, else the variable for traces (as it is), else the one for everything. */
export const tracesUrl = ({ telemetry }: Config, env: Environment): string | null => {
  const below = (base: string): string => `${base.replace(/\/+$/, '')}/v1/traces`
  if (telemetry.otlp_endpoint !== null) return below(telemetry.otlp_endpoint)
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === 'true') return null
  if (env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) return env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
  return env.OTEL_EXPORTER_OTLP_ENDPOINT ? below(env.OTEL_EXPORTER_OTLP_ENDPOINT) : null
}

/** Headers by name, from the text of the setting; invalid ones are left out. */
export const headersOf = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(headerPairs(text).filter((pair) => pair !== null))

/** The telemetry that the app gets. */
export const telemetryOf = (parts: {
  readonly analytics: { readonly sql: Sql }
  readonly outcomes: { readonly spool: Pick<LocalSpool, 'status'>; sender(): SenderStatus | null }
  readonly tracing: Tracing | null
  readonly budgets: Pick<Budgets, 'figures'>
}): { readonly telemetry: Telemetry; readonly traces: Traces | null } => ({
  telemetry: {
    projections: () => projectionViews(parts.analytics.sql),
    sending: () => sendingView(parts.outcomes.sender()),
    disk: () => parts.outcomes.spool.status(),
    traces: parts.tracing?.exporter ?? null,
    budgets: parts.budgets.figures,
  },
  traces: parts.tracing?.traces ?? null,
})
