// The recent probes of a provider: those of every instance from the read model, joined with those of this instance,
// which the read model may not have yet.
import type { ProbeQueries, StoredProbe } from '../../../../projections/probes/query.ts'
import { MOST_PROBES } from '../../../domain/events/health.ts'
import type { Probe } from '../../../state/health/candidate.ts'
import { probeView } from './health-view.ts'

export interface ProbeHistory {
  /** Newest last, at most `MOST_PROBES`. */
  readonly probes: readonly Probe[]
  /** False: the read store cannot be read, and these are the probes that this instance made since it started. */
  readonly complete: boolean
}

const probeOf = ({ at_ms, trigger, ok, latency_ms, error_code, upstream_status, models }: StoredProbe): Probe => ({
  ...{ atMs: at_ms, trigger, ok, latencyMs: latency_ms },
  ...{ errorCode: error_code, upstreamStatus: upstream_status, models },
})

/** Two probes with equal views are the same probe. */
const textOf = (probe: Probe): string => JSON.stringify(probeView(probe))

/**
 * `own` is called after the read model has replied. An operator may look at the health of a provider during an outage:
 * an unavailable read store does not fail this.
 */
export const probeHistory = async (
  { recent }: ProbeQueries,
  providerId: string,
  own: () => readonly Probe[],
): Promise<ProbeHistory> => {
  const stored = await recent(providerId).catch(() => null)
  const here = own()
  const ownTexts = new Set(here.map(textOf))
  const others = (stored ?? []).map(probeOf).filter((probe) => !ownTexts.has(textOf(probe)))
  const probes = [...others, ...here].sort((a, b) => a.atMs - b.atMs)
  return { probes: probes.slice(-MOST_PROBES), complete: stored !== null }
}
