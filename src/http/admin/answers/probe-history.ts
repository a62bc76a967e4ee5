// The recent probes of a provider: those of every instance from the read model, and those of this one, which may be newer or not be read yet.
import type { ProbeQueries, StoredProbe } from '../../../../projections/probes/query.ts'
import { KEPT_PROBES } from '../../../domain/events/health.ts'
import type { Probe } from '../../../state/health/candidate.ts'
import { probeView } from './health-view.ts'

export interface ProbeHistory {
  /** Newest last, at most `KEPT_PROBES`. */
  readonly probes: readonly Probe[]
  /** False: the read store could not be read, and these are the ones that this instance made since it started. */
  readonly complete: boolean
}

const probeOf = ({ at_ms, trigger, ok, latency_ms, error_code, upstream_status, models }: StoredProbe): Probe => ({
  ...{ atMs: at_ms, trigger, ok, latencyMs: latency_ms },
  ...{ errorCode: error_code, upstreamStatus: upstream_status, models },
})

/** What is the same in all that is told of it is taken for the same probe. */
const textOf = (probe: Probe): string => JSON.stringify(probeView(probe))

/** `own`: asked when the read model has answered. Whoever looks at the health of a provider may be in the midst of an outage: nothing that is away fails this. */
export const probeHistory = async (
  { recent }: ProbeQueries,
  providerId: string,
  own: () => readonly Probe[],
): Promise<ProbeHistory> => {
  const stored = await recent(providerId).catch(() => null)
  const here = own()
  const told = new Set(here.map(textOf))
  const others = (stored ?? []).map(probeOf).filter((probe) => !told.has(textOf(probe)))
  const probes = [...others, ...here].sort((a, b) => a.atMs - b.atMs)
  return { probes: probes.slice(-KEPT_PROBES), complete: stored !== null }
}
