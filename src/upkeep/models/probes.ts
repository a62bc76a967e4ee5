// Active health: lists the models of providers at an interval, and when an operator requests it.
import type { ProviderRow } from '../../domain/registry/provider.ts'
import { sleep } from '../../lib/event-loop/sleep.ts'
import type { Dial } from '../../lib/http-client/http-client.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { HealthBook } from '../../state/health/book.ts'
import type { Probe } from '../../state/health/candidate.ts'
import type { LiveState } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import type { KindTable } from './kind-table.ts'
import { canList, type ModelCatalogue } from './model-listing.ts'

export interface ProbeDeps {
  readonly live: Pick<LiveState, 'control'>
  readonly kindTable: KindTable
  readonly modelCatalogue: Pick<ModelCatalogue, 'list'>
  readonly dial: Dial
  readonly book: Pick<HealthBook, 'probed'>
  readonly diagnostics: Diagnostics
  /** Whether requests could be sent to it. */
  adapterReady(providerId: string): boolean
  nowMs(): number
  /** In [0, 1): instances that started together do not probe together. */
  random(): number
  /** Between two rounds; null: only those that are requested. */
  readonly everyMs: number | null
}

export interface ProbeResult extends Probe {
  /** Safe to show; null when all is well. */
  readonly message: string | null
}

export interface Probes {
  /** Probes it now; concurrent callers get the same result. Never throws for what the provider does. */
  probe(provider: ProviderRow): Promise<ProbeResult>
  close(): Promise<void>
}

const PROBE_MS = 10_000
const CONNECT_MS = 3_000
/** Probes under way at once in a round. */
const PROBES_AT_ONCE = 4
/** A round comes up to this share earlier or later. */
const JITTER = 0.2

export const startProbes = (deps: ProbeDeps): Probes => {
  const running = new Map<string, Promise<ProbeResult>>()
  const closing = new AbortController()
  const { signal } = closing

  const probe = (provider: ProviderRow, trigger: Probe['trigger']): Promise<ProbeResult> => {
    const under = running.get(provider.id)
    if (under !== undefined) return under
    const task = probeOnce(provider, trigger, deps).finally(() => running.delete(provider.id))
    running.set(provider.id, task)
    return task
  }

  const round = async (): Promise<void> => {
    const due = [...deps.live.control.table('providers').rows()]
      .map(([, row]) => row)
      .filter((row) => row.status === 'active' && deps.adapterReady(row.id) && canList(row, deps.kindTable))
    const probeDue = async (): Promise<void> => {
      for (let next = due.pop(); next !== undefined && !signal.aborted; next = due.pop()) await probe(next, 'scheduled')
    }
    await Promise.all(Array.from({ length: PROBES_AT_ONCE }, probeDue))
  }

  const run = async (everyMs: number): Promise<void> => {
    while (!signal.aborted) {
      await sleep(everyMs * (1 - JITTER + 2 * JITTER * deps.random()), signal)
      if (signal.aborted) return
      await round().catch((error: unknown) => deps.diagnostics.error('probes_failed', { error }))
    }
  }
  const work = deps.everyMs === null ? Promise.resolve() : run(deps.everyMs)
  return {
    probe: (provider) => probe(provider, 'manual'),
    async close() {
      closing.abort()
      // A probe under way ends by its own deadline; the close does not wait for it.
      await Promise.race([work, sleep(100)])
    },
  }
}

const probeOnce = async (provider: ProviderRow, trigger: Probe['trigger'], deps: ProbeDeps): Promise<ProbeResult> => {
  const startedMs = performance.now()
  const outcome = await (canList(provider, deps.kindTable) ? listed(provider, deps) : reached(provider, deps))
  const latencyMs = Math.max(0, Math.round(performance.now() - startedMs))
  const { message, ...found } = outcome
  const probe: Probe = { atMs: deps.nowMs(), trigger, latencyMs, ...found }
  deps.book.probed(provider, probe)
  return { ...probe, message }
}

type Found = Pick<ProbeResult, 'ok' | 'errorCode' | 'upstreamStatus' | 'models' | 'message'>

const failed = (error: GatewayError): Found => ({
  ok: false,
  errorCode: error.code,
  upstreamStatus: error.upstreamStatus ?? null,
  models: null,
  message: error.message,
})

const listed = async (provider: ProviderRow, { modelCatalogue }: ProbeDeps): Promise<Found> => {
  try {
    const models = await modelCatalogue.list(provider, { totalMs: PROBE_MS })
    return { ok: true, errorCode: null, upstreamStatus: null, models: models.length, message: null }
  } catch (error) {
    return failed(
      error instanceof GatewayError
        ? error
        : new GatewayError('upstream_error', "the provider's answer could not be read", { cause: error }),
    )
  }
}

/** A kind that cannot list: whether its address responds. No secret is sent. */
const reached = async (provider: ProviderRow, { kindTable, dial }: ProbeDeps): Promise<Found> => {
  const kind = kindTable.resolve(provider.kind)
  if (kind === null) return failed(new GatewayError('provider_unavailable', `the kind "${provider.kind}" is not known`))
  if (kind.script !== undefined) return { ok: true, errorCode: null, upstreamStatus: null, models: null, message: null }
  const url = provider.base_url ?? kind.defaultBaseUrl ?? ''
  try {
    const response = await dial(
      { method: 'GET', url, headers: {}, body: null },
      { signal: AbortSignal.timeout(PROBE_MS), connectMs: CONNECT_MS, headersMs: PROBE_MS },
    )
    await response.body?.cancel()
    if (response.status < 500)
      return { ok: true, errorCode: null, upstreamStatus: response.status, models: null, message: null }
    return failed(
      new GatewayError('upstream_error', `the provider answers with status ${response.status}`, {
        upstreamStatus: response.status,
      }),
    )
  } catch (cause) {
    return failed(new GatewayError('upstream_error', 'the provider cannot be reached', { cause }))
  }
}
