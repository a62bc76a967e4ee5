// `/admin/v1/providers/{id}/detect-capabilities`: queries the models, records the verdicts and writes what is proven.
import { closed } from '../../../domain/kernel/fields.ts'
import type { ModelRow } from '../../../domain/registry/model.ts'
import type { ProviderRow } from '../../../domain/registry/provider.ts'
import {
  type CheckResult,
  cutDetail,
  type DetectedModel,
  decideDetection,
  MOST_RESULTS,
  type ProviderTested,
  type ProviderTestRow,
} from '../../../domain/registry/provider-test.ts'
import { usdOf } from '../../../lib/money.ts'
import { t } from '../../../lib/schema/schema.ts'
import { type ModelDetection, withVerdict } from '../../../upkeep/models/detect.ts'
import { GatewayError } from '../../../wire/errors.ts'
import { payerOf } from '../../auth.ts'
import type { ProviderDeps } from '../answers/provider-view.ts'
import { begin, modelOfProvider } from '../answers/provider-work.ts'
import { DetectionView } from '../answers/work.ts'
import { type AdminRoute, route } from '../route.ts'
import { write, writtenRow } from '../write.ts'

const Detection = closed(
  t.Object({
    models: t.Optional(t.Array(t.String({ minLength: 1, maxLength: 256 }), { maxItems: MOST_RESULTS })),
  }),
)

/** The models to query, and the active ones beyond the bound of one detection. */
const chosenOf = (provider: ProviderRow, named: readonly string[] | undefined, deps: ProviderDeps) => {
  const { control } = deps.live
  const entries = deps.providerWork.entriesOf(provider.id)
  const isActive = (id: string) => control.table('models').get(id)?.status === 'active'
  const ids = named?.map((name) => modelOfProvider(control, provider, name, 'models').id)
  const wanted = entries.filter(({ modelId }) => (ids === undefined ? isActive(modelId) : ids.includes(modelId)))
  if (wanted.length === 0) {
    const how = 'register one, or sync-models all that it lists'
    throw new GatewayError('invalid_request', `the provider "${provider.name}" has no active model to ask: ${how}`, {
      param: 'models',
    })
  }
  return { chosen: wanted.slice(0, MOST_RESULTS), left: wanted.slice(MOST_RESULTS) }
}

/** Bytes of all verdicts of one detection: with the rest of its results they stay below the 64 KiB of a decision. */
const DETAIL_BYTES = 12 * 1024
/** Bytes of the summary of one model's result. */
const SUMMARY_BYTES = 256

/** Cuts a text so that its JSON has at most that many bytes. */
const cutTo = (text: string, bytes: number): string => {
  let cut = cutDetail(text)
  while (cut !== '' && Buffer.byteLength(JSON.stringify(cut)) > bytes) cut = cut.slice(0, Math.floor(cut.length * 0.9))
  return cut.toWellFormed()
}

/** The result of one model, as it is recorded. `detailBytes`: the bound of each verdict's detail. */
const resultOf = (detection: ModelDetection, detailBytes: number): CheckResult => {
  const { entry, attempted, verdicts, latencyMs, costNanoUsd } = detection
  const proven = withVerdict(detection, 'proven')
  const lists = { proven, disproved: withVerdict(detection, 'disproved') }
  const open = { indeterminate: withVerdict(detection, 'indeterminate'), unasked: withVerdict(detection, 'skipped') }
  const why = verdicts.find(({ verdict }) => verdict !== 'proven')
  return {
    check: 'capabilities',
    status: !attempted ? 'skipped' : proven.length > 0 ? 'passed' : 'failed',
    latency_ms: latencyMs,
    detail: cutTo(
      proven.length > 0 ? `proven: ${proven.join(', ')}` : (why?.detail ?? 'nothing was found out about it'),
      SUMMARY_BYTES,
    ),
    model: entry.name,
    cost_nano_usd: costNanoUsd,
    ...lists,
    ...open,
    verdicts: verdicts.map(({ capability, verdict, detail, latencyMs: latency_ms }) => ({
      capability,
      verdict,
      detail: cutTo(detail, detailBytes),
      latency_ms,
    })),
  }
}

const COUNTED = ['proven', 'disproved', 'indeterminate'] as const

/** Counts of capabilities by verdict, and of models. Counted is what is recorded. */
const countsOf = ({ results, models_left }: Pick<ProviderTestRow, 'results' | 'models_left'>) => {
  const sum = (name: (typeof COUNTED)[number] | 'unasked') =>
    results.reduce((all, result) => all + (result[name]?.length ?? 0), 0)
  return {
    attempted: results.filter(({ status }) => status !== 'skipped').length,
    proven: sum('proven'),
    indeterminate: sum('indeterminate'),
    skipped: sum('unasked'),
    disproved: sum('disproved'),
    models_left: models_left ?? 0,
  }
}

/**
 * The view of one model's result, from its record, so that a repeat returns the same. Records of older versions have no
 * verdicts.
 */
const modelView = (result: CheckResult, row: ModelRow | undefined) => ({
  model_id: row?.id ?? null,
  model: result.model ?? null,
  status: result.status,
  latency_ms: result.latency_ms,
  detail: result.detail,
  cost_usd: result.cost_nano_usd == null ? null : usdOf(result.cost_nano_usd),
  capabilities: row?.capabilities ?? null,
  capability_source: row?.capability_source ?? null,
  proven: result.proven ?? [],
  disproved: result.disproved ?? [],
  indeterminate: result.indeterminate ?? [],
  skipped: result.unasked ?? [],
  ...(result.verdicts === undefined ? {} : { verdicts: result.verdicts }),
})

const viewOf = (tested: ProviderTestRow, { live }: ProviderDeps) => {
  const models = live.control.table('models')
  const rows = models.find('provider', tested.provider_id).map((id) => models.get(id)!)
  return {
    ...countsOf(tested),
    id: tested.id,
    provider_id: tested.provider_id,
    models: tested.results.map((result) =>
      modelView(
        result,
        rows.find(({ name }) => name === result.model),
      ),
    ),
    created_at: tested.created_at,
  }
}

const detectCapabilities = (deps: ProviderDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/providers/:id/detect-capabilities',
    forAll: true,
    scopes: ['providers:admin'],
    summary:
      'Ask models what they can do, and write what is proven where no operator has set the list; at most ' +
      `${MOST_RESULTS} models at once`,
    body: Detection,
    bodyOptional: true,
    answer: DetectionView,
    async handle(call) {
      const begun = await begin(call, deps)
      if (begun.provider === null) return { body: viewOf(begun.earlier, deps), revision: begun.revision }
      const { provider } = begun
      const { chosen, left } = chosenOf(provider, call.body.models, deps)
      const found = await deps.providerWork.detect(chosen, payerOf(call.principal), call.request.signal)
      const verdictCount = found.reduce((all, { verdicts }) => all + verdicts.length, 0)
      const detailBytes = Math.floor(DETAIL_BYTES / Math.max(1, verdictCount))
      const tested: ProviderTested = {
        id: deps.newId('test'),
        provider_id: provider.id,
        kind: 'detection',
        success: found.some(({ verdicts }) => verdicts.some(({ verdict }) => verdict === 'proven')),
        results: found.map((detection) => resultOf(detection, detailBytes)),
        models_left: left.length,
      }
      const detected = found.map(
        (detection): DetectedModel => ({
          model_id: detection.entry.modelId,
          proven: withVerdict(detection, 'proven'),
          disproved: withVerdict(detection, 'disproved'),
        }),
      )
      const result = await write(
        deps.commit,
        call,
        (state) => state.table('providers').get(provider.id),
        (state) => decideDetection(state, tested, detected),
      )
      return { body: viewOf(writtenRow(result, 'tests'), deps), revision: result.revision }
    },
  })

export const detectionRoutes = (deps: ProviderDeps): AdminRoute[] => [detectCapabilities(deps)]
