// `/admin/v1/providers/{id}/probe`. Its result is telemetry; with an `Idempotency-Key` it is a decision too, so that
// every instance can reply to a repeat.
import type { ControlReader } from '../../../domain/control.ts'
import type { ProviderRow } from '../../../domain/registry/provider.ts'
import {
  type CheckResult,
  cutDetail,
  decideProviderTest,
  PROBE,
  type ProviderTestRow,
} from '../../../domain/registry/provider-test.ts'
import type { IdPrefix } from '../../../lib/crypto/ids.ts'
import type { Commit, LiveState } from '../../../state/port.ts'
import type { ProbeResult, Probes } from '../../../upkeep/models/probes.ts'
import { ProbeAnswer } from '../answers/health.ts'
import { probeView } from '../answers/health-view.ts'
import { providerOf } from '../answers/provider-view.ts'
import { begin } from '../answers/provider-work.ts'
import { type AdminRoute, route } from '../route.ts'
import { write, writtenRow } from '../write.ts'

export interface ProbeRouteDeps {
  readonly live: Pick<LiveState, 'control' | 'status'>
  /** Rejects while frozen. */
  readonly commit: Commit
  readonly probes: Pick<Probes, 'probe'>
  newId(prefix: IdPrefix): string
}

const answerOf = (provider: { readonly id: string; readonly name: string }, result: ProbeResult) => ({
  provider_id: provider.id,
  provider: provider.name,
  status: result.ok ? 'healthy' : 'unhealthy',
  ...probeView(result),
  message: result.message,
})

const FINE = 'it answered'

const recordOf = ({ ok, latencyMs, message, errorCode, upstreamStatus, models }: ProbeResult): CheckResult => ({
  check: PROBE,
  status: ok ? 'passed' : 'failed',
  latency_ms: latencyMs,
  detail: cutDetail(message ?? FINE),
  ...(errorCode === null ? {} : { error_code: errorCode }),
  ...(upstreamStatus === null ? {} : { upstream_status: upstreamStatus }),
  ...(models === null ? {} : { models }),
})

/** The recorded result, in the form of the first response. */
const recorded = (state: ControlReader, { provider_id: id, created_at, success, results }: ProviderTestRow) => {
  const { latency_ms, detail, error_code = null, upstream_status = null, models = null } = results[0]!
  const name = state.table('providers').get(id)?.name ?? id
  return answerOf(
    { id, name },
    {
      ...{ atMs: Date.parse(created_at), trigger: 'manual', ok: success, latencyMs: latency_ms },
      ...{ errorCode: error_code, upstreamStatus: upstream_status, models },
      message: success ? null : detail,
    },
  )
}

export const probeRoute = ({ live, commit, probes, newId }: ProbeRouteDeps): AdminRoute => {
  const probed = async (provider: ProviderRow) => ({
    body: answerOf(provider, await probes.probe(provider)),
    revision: live.status().tip,
  })
  return route({
    method: 'POST',
    path: '/providers/:id/probe',
    forAll: true,
    scopes: ['providers:admin'],
    summary: 'Probe a provider now; the result is recorded',
    answer: ProbeAnswer,
    async handle(call) {
      const { cause, ifMatch } = call.intent
      if (cause === null && ifMatch === null) return probed(providerOf(live.control, call.params.id))
      const begun = await begin(call, { commit })
      if (begun.provider === null) return { body: recorded(live.control, begun.earlier), revision: begun.revision }
      if (cause === null) return probed(begun.provider)
      const { id: provider_id } = begun.provider
      const found = await probes.probe(begun.provider)
      const about = { id: newId('test'), provider_id, kind: 'test' as const, success: found.ok }
      const tested = { ...about, results: [recordOf(found)] }
      const provider = (state: ControlReader) => state.table('providers').get(provider_id)
      const result = await write(commit, call, provider, (state) => decideProviderTest(state, tested))
      return { body: recorded(live.control, writtenRow(result, 'tests')), revision: result.revision }
    },
  })
}
