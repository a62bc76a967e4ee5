// Response schemas of `/requests/{requestID}/explain`. Open: a later version may add fields.

import { AttemptSummary } from '../../../domain/events/request-reading.ts'
import { Nullable } from '../../../domain/kernel/fields.ts'
import { t } from '../../../lib/schema/schema.ts'

const text = (description: string) => Nullable(t.String(), description)
const Named = {
  provider: t.String({ description: 'name of the provider' }),
  provider_id: t.String(),
  model: t.String({ description: 'name in the registry' }),
  model_id: t.String(),
}
const Share = t.Number({ minimum: 0, maximum: 1 })

const Candidate = t.Object({
  ...Named,
  eligible: t.Boolean(),
  rejected_reason: text('why it was not called; null when it could be'),
  score: Nullable(Share, 'blended rank among the eligible ones'),
  components: Nullable(
    t.Object({ cost: Share, latency: Share, health: Share, priority: Share, feedback: Share }),
    'each from 0 (worst) to 1; null: not compared, or not computed again',
  ),
  projected_cost_usd: Nullable(t.Number({ minimum: 0 }), 'null: no price'),
})

const Refusal = Nullable(
  t.Object({ code: t.String(), message: text('null: only the code was recorded') }),
  'what the request is refused with before anybody is called: by the plan or, of what was, behind it (a ' +
    'budget, a rate limit); else null',
)

/** A plan and its result. */
const PLAN = {
  policy: t.Object({
    id: text('null: the built-in one'),
    name: text('as it is called in the configuration that was read'),
    source: text('`header`, `key`, `tenant`, `global` or `built_in`; null: the plan could not be computed again'),
    verdict: Nullable(t.Union([t.Literal('allowed'), t.Literal('refused')])),
  }),
  required_capabilities: t.Array(t.String()),
  strategy: text('how the candidates were ordered; null: not computed again'),
  overrides_applied: t.Array(t.String(), { description: 'ids of the overrides in force' }),
  endpoint: text('slug of the endpoint scope'),
  candidates: t.Array(Candidate, {
    description: 'all that were considered, in the order of the registry; empty: not computed again',
  }),
  order: t.Array(t.Integer({ minimum: 0 }), {
    description: 'places of the candidates in the order of the strategy, before health is considered',
  }),
  chosen: Nullable(t.Object(Named), 'who answered or was called last; of what would have been: who is called first'),
  refused: Refusal,
}

export const ExplainAnswer = t.Object(
  {
    id: t.String({ description: 'ours and unique' }),
    request_id: t.String({ description: 'the label of the client, else the id' }),
    at: t.String({ format: 'date-time' }),
    computed: t.Boolean({
      description: 'the plan was made again from configuration, frame and seed; false: only what was recorded is shown',
    }),
    not_computed: text('why not'),
    matches: t.Optional(
      t.Boolean({ description: 'the plan that was made again is what was recorded; absent for what would have been' }),
    ),
    differences: t.Optional(t.Array(t.String(), { description: 'in what it is not' })),
    missing: t.Optional(
      t.Array(t.String(), {
        description:
          'of what would have been: inputs that nobody wrote down, since the plan that was made did not need ' +
          'them (`turn`, `sticky`, `tools`)',
      }),
    ),
    revision: text(
      'decision whose configuration was read; its first 16 digits where it could not be; null: there was no plan',
    ),
    frame: t.Integer({ minimum: 0, description: 'number of the frame of health, latency and load that the plan saw' }),
    seed: t.Integer({ minimum: 0, description: 'drives every random choice' }),
    task: t.String(),
    rejected: t.Record(t.String(), t.Integer({ minimum: 1 }), {
      description: 'how many candidates of the plan that was made were rejected, by reason, as recorded',
    }),
    ...PLAN,
    route_reason: text('a sentence'),
    shaping: t.Array(t.String(), { description: 'what was dropped, renamed or clamped on the way to the provider' }),
    cache: t.Object({ mode: text('null: not known'), outcome: text('`hit`'), reason: text('null: not known') }),
    budget: t.Object({ reserved_usd: Nullable(t.Number()), remaining_usd: Nullable(t.Number()) }),
    attempts: t.Array(t.Omit(AttemptSummary, ['cost_nano_usd']), { description: 'as they were made' }),
    recorded: t.Optional(
      t.Object(
        {
          revision: text('decision on which it was planned: the first 16 digits of its id'),
          ...PLAN,
          outcome: t.String(),
          error_code: text('a code of the error table'),
          attempts: t.Array(t.Omit(AttemptSummary, ['cost_nano_usd'])),
        },
        { description: 'beside what would have been: what was' },
      ),
    ),
  },
  {
    title: 'Explanation',
    description: 'Why a request went where it went, computed again.',
    examples: [
      {
        id: 'req_0199a0c4-7a10-7cc1-9d2e-3f5b8a6c1d20',
        request_id: 'checkout-7',
        at: '2026-11-22T10:00:00.000Z',
        computed: true,
        not_computed: null,
        matches: true,
        differences: [],
        revision: '3f5b8a6c1d200199a0c47a107cc19d2e3f5b8a6c1d200199a0c47a107cc19d2e',
        frame: 41,
        seed: 1804289383,
        task: 'chat',
        rejected: {},
        policy: { id: null, name: null, source: 'built_in', verdict: 'allowed' },
        required_capabilities: [],
        strategy: 'balanced',
        overrides_applied: [],
        endpoint: null,
        candidates: [
          {
            provider: 'openai',
            provider_id: 'prov_0199a0c4-7a10-7cc1-9d2e-3f5b8a6c1d21',
            model: 'gpt-4o-mini',
            model_id: 'mod_0199a0c4-7a10-7cc1-9d2e-3f5b8a6c1d22',
            eligible: true,
            rejected_reason: null,
            score: 0.91,
            components: { cost: 1, latency: 0.8, health: 1, priority: 1, feedback: 0.5 },
            projected_cost_usd: 0.00031,
          },
        ],
        order: [0],
        chosen: {
          provider: 'openai',
          provider_id: 'prov_0199a0c4-7a10-7cc1-9d2e-3f5b8a6c1d21',
          model: 'gpt-4o-mini',
          model_id: 'mod_0199a0c4-7a10-7cc1-9d2e-3f5b8a6c1d22',
        },
        refused: null,
        route_reason: 'openai/gpt-4o-mini comes first by balanced among 1 of 1 candidate (built in)',
        shaping: [],
        cache: { mode: null, outcome: null, reason: null },
        budget: { reserved_usd: 0.00042, remaining_usd: null },
        attempts: [
          {
            n: 1,
            provider: 'openai',
            model: 'gpt-4o-mini',
            outcome: 'success',
            error_code: null,
            upstream_status: 200,
            latency_ms: 640,
            ttft_ms: null,
          },
        ],
      },
    ],
  },
)
