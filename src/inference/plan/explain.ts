// Why a request was routed as it was: as a sentence, and as the block for `X-Gateway-Debug`. Computed on request.

import { usdOf } from '../../lib/money.ts'
import { type Score, type Scored, scores } from '../../state/health/scores.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import type { Plan } from './plan.ts'

/** Why the first candidate is the first, as a sentence. */
export const routeReason = (plan: Plan): string => {
  const { primary, candidates, reasons, strategy, policy, input, ordered, refused } = plan
  const all = `${candidates.length} candidate${candidates.length === 1 ? '' : 's'}`
  if (primary === null) return `none of ${all} may be called: ${refused?.message ?? 'nothing is left'}`
  const by = strategy === 'priority' ? `priority ${primary.priority}` : strategy
  const from = policy.source === 'built_in' ? 'built in' : `${policy.source} policy "${policy.name}"`
  const named = primary.name.toLowerCase() === input.intent.model.toLowerCase() ? '' : ` (for "${input.intent.model}")`
  const first = `${primary.provider}/${primary.name}${named}`
  const sentence = `${first} comes first by ${by} among ${plan.order.length} of ${all} (${from})`
  const skipped = reasons[plan.order[0]!]
  if (skipped === null) return sentence
  const next = ordered[0]
  const then = next === undefined ? 'nobody may answer instead' : `${next.provider}/${next.name} is called first`
  return `${sentence}; it is left out now (${skipped}), ${then}`
}

/** The blended ranks of the candidates that only their health could exclude; null for the others. */
export const scoresOf = ({ candidates, order, projectedNanoUsd, policy, input }: Plan): (Score | null)[] => {
  const places = [...order].sort((a, b) => a - b)
  const compared = places.map((place): Scored => {
    const { modelId, priority } = candidates[place]!
    return { cost: projectedNanoUsd[place] ?? null, priority, signals: input.frame.signals(modelId) }
  })
  const metric = policy.latencyMetric ?? (input.intent.stream ? 'ttft' : 'e2e')
  const all: (Score | null)[] = candidates.map(() => null)
  scores(compared, policy.weights, metric).forEach((score, i) => {
    all[places[i]!] = score
  })
  return all
}

/** The candidates of the plan with their reasons, in order. */
const candidatesOf = (plan: Plan) => {
  const { candidates, reasons, projectedNanoUsd } = plan
  const ranks = scoresOf(plan)
  return candidates.map((entry, i) => {
    const projected = projectedNanoUsd[i] ?? null
    return {
      entry,
      eligible: reasons[i] === null,
      rejected_reason: reasons[i]!,
      score: ranks[i]?.rank ?? null,
      components: ranks[i]?.components ?? null,
      projected_cost_usd: projected === null ? null : usdOf(projected),
    }
  })
}

/** What the debug block and the explanation have in common. */
const sharedOf = ({ input, policy, refused }: Plan) => ({
  policy: {
    id: policy.id,
    name: policy.name,
    source: policy.source,
    verdict: refused === null ? ('allowed' as const) : ('refused' as const),
  },
  required_capabilities: input.intent.requirements.map(({ capability }) => capability),
  overrides_applied: input.overrides.ids,
  endpoint: policy.scope?.slug ?? null,
})

/**
 * The decision in the debug block, in the fields of the explanation: members as JSON text, each with a comma in front.
 */
export const explainedJson = (plan: Plan, revision: string | null, entry: CatalogueEntry | null): string => {
  const { input } = plan
  const explained = {
    revision,
    frame: input.frame.number,
    seed: input.seed,
    ...sharedOf(plan),
    candidates: candidatesOf(plan).map(({ entry: { provider, name }, ...view }) => ({
      provider,
      model: name,
      ...view,
    })),
    chosen: entry === null ? null : { provider: entry.provider, model: entry.name },
  }
  return `,${JSON.stringify(explained).slice(1, -1)}`
}

const named = ({ provider, providerId, name, modelId }: CatalogueEntry) => ({
  provider,
  provider_id: providerId,
  model: name,
  model_id: modelId,
})

/** A repeated plan, as `/requests/{id}/explain` shows it. */
export const planView = (plan: Plan) => ({
  strategy: plan.strategy as string,
  ...sharedOf(plan),
  candidates: candidatesOf(plan).map(({ entry, ...view }) => ({ ...named(entry), ...view })),
  /** Places of the eligible candidates in the order of the strategy, before health. */
  order: plan.order,
  /** The candidate that is called first. */
  chosen: plan.ordered[0] === undefined ? null : named(plan.ordered[0]),
  route_reason: routeReason(plan),
  refused: plan.refused === null ? null : { code: plan.refused.code as string, message: plan.refused.message },
})
export type PlanView = ReturnType<typeof planView>
