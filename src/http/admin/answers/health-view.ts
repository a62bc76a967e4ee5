// Views of a provider's health: in lists of providers, by itself, and with its models.
import type { HealthBook } from '../../../state/health/book.ts'
import type { Probe } from '../../../state/health/candidate.ts'
import type { CatalogueEntry } from '../../../state/port.ts'

export type ShownBook = Pick<HealthBook, 'provider' | 'signals' | 'current' | 'candidates'>

export type HealthStatus = 'healthy' | 'degraded' | 'unhealthy' | 'unknown'

const GOOD_HEALTH = 0.9
/** This many failed probes in a row make a provider unhealthy. */
const FAILED_PROBES = 2

const iso = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())

/**
 * What every view of a provider shows. `checked_at`: its last probe or its last successful call. `probes`: newest last;
 * when absent, those of this instance.
 */
export const providerHealth = (
  book: ShownBook,
  providerId: string,
  entries: readonly CatalogueEntry[],
  probes: readonly Probe[] = book.provider(providerId)?.probes ?? [],
) => {
  const provider = book.provider(providerId)
  const probe = probes.at(-1) ?? null
  const breakers = { closed: 0, open: 0, half_open: 0 }
  let isDegraded = false
  for (const { modelId } of entries) {
    const { breaker, ejected, coolingDown, health } = book.signals(modelId)
    breakers[breaker] += 1
    if (breaker !== 'closed' || ejected || coolingDown || health < GOOD_HEALTH) isDegraded = true
  }
  const succeededAtMs = provider?.succeededAtMs ?? null
  const failedProbes = probes.length - 1 - probes.findLastIndex(({ ok }) => ok)
  const isFailing = failedProbes >= FAILED_PROBES && (succeededAtMs ?? 0) < (probe?.atMs ?? 0) - 60_000
  const allOpen = entries.length > 0 && breakers.open === entries.length
  const isObserved = probe !== null || succeededAtMs !== null || isDegraded
  const status: HealthStatus = !isObserved
    ? 'unknown'
    : allOpen || isFailing
      ? 'unhealthy'
      : isDegraded || probe?.ok === false
        ? 'degraded'
        : 'healthy'
  const checkedAtMs = Math.max(probe?.atMs ?? 0, succeededAtMs ?? 0)
  return {
    status,
    checked_at: iso(checkedAtMs === 0 ? null : checkedAtMs),
    latency_ms: rounded((probe?.atMs ?? 0) >= (succeededAtMs ?? 0) ? (probe?.latencyMs ?? null) : provider!.latencyMs),
    in_flight: provider?.inFlight ?? 0,
    breakers,
  }
}

const rounded = (value: number | null): number | null => (value === null ? null : Math.round(value))

/** View of one model of the provider. */
export const modelHealth = (book: ShownBook, { modelId, name }: CatalogueEntry) => {
  const signals = book.signals(modelId)
  return {
    model_id: modelId,
    model: name,
    breaker: signals.breaker,
    ejected: signals.ejected,
    cooling_down: signals.coolingDown,
    health: signals.health,
    ttft_ms: signals.ttftMs,
    e2e_ms: signals.e2eMs,
    tokens_per_second: signals.tokensPerSecond,
    in_flight: signals.inFlight,
    headroom: signals.headroom,
    feedback: signals.feedback,
  }
}

export const probeView = ({ atMs, trigger, ok, latencyMs, errorCode, upstreamStatus, models }: Probe) => ({
  checked_at: new Date(atMs).toISOString(),
  trigger,
  ok,
  latency_ms: latencyMs,
  error_code: errorCode,
  upstream_status: upstreamStatus,
  models,
})
