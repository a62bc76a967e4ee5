// Events of breakers and probes.
import type { HealthEvent } from '../../domain/events/health.ts'
import type { BreakerMove } from './breaker.ts'
import type { CandidateHealth, Probe } from './candidate.ts'

export const breakerEvent = (candidate: CandidateHealth, move: BreakerMove, atMs: number): HealthEvent => {
  const { to, reason, requests, failures, cooldownMs } = move
  const subject = candidate.modelId
  const about = {
    at_ms: atMs,
    provider_id: candidate.provider.id,
    provider: candidate.providerName,
    model_id: candidate.modelId,
    model: candidate.model,
  }
  if (to === 'half_open') return { type: 'breaker.half_opened', subject, data: about }
  if (to === 'closed') {
    const why = reason === 'cleared' ? 'cleared' : 'trial'
    return { type: 'breaker.closed', subject, data: { ...about, requests, failures, reason: why } }
  }
  const why = reason === 'consecutive' || reason === 'rate' ? reason : 'trial'
  const data = { ...about, requests, failures, reason: why, cooldown_ms: cooldownMs ?? 0 } as const
  return { type: 'breaker.opened', subject, data }
}

export const probeEvent = (
  provider: { readonly id: string; readonly name: string },
  { atMs, trigger, ok, latencyMs, errorCode, upstreamStatus, models }: Probe,
): HealthEvent => ({
  type: 'probe.recorded',
  subject: provider.id,
  data: {
    at_ms: atMs,
    provider_id: provider.id,
    provider: provider.name,
    trigger,
    ok,
    latency_ms: latencyMs,
    error_code: errorCode,
    upstream_status: upstreamStatus,
    models,
  },
})
