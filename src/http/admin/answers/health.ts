// Response schemas of the reads of health and scores, and of a probe. Open: a later version may add fields. The
// document names each by its title.

import { ProbeRecorded } from '../../../domain/events/health.ts'
import { Nullable } from '../../../domain/kernel/fields.ts'
import { type TSchema, t } from '../../../lib/schema/schema.ts'
import type { HealthStatus, modelHealth } from './health-view.ts'

/** RFC 3339, UTC. */
export const Moment = t.String({ format: 'date-time' })

const STATUSES = ['healthy', 'degraded', 'unhealthy', 'unknown'] as const satisfies readonly HealthStatus[]
const count = (description: string) => t.Integer({ minimum: 0, description })
const ms = (description: string) => Nullable(t.Number({ minimum: 0, description }))
const share = (description: string) => t.Number({ minimum: 0, maximum: 1, description })

/** Fields of a provider in every view. */
const HEALTH = {
  status: t.Union(
    STATUSES.map((name) => t.Literal(name)),
    { description: 'as this instance sees it' },
  ),
  checked_at: Nullable(Moment),
  latency_ms: ms('of the last probe or answer'),
  in_flight: count('calls of it that are under way'),
  breakers: t.Object({ closed: count('models'), open: count('models'), half_open: count('models') }),
}
export const ShownHealth = t.Object(HEALTH)

/** A provider as this instance observes it. */
const PROVIDER_STATE = {
  provider_id: t.String(),
  provider: t.String({ description: 'its name' }),
  enabled: t.Boolean(),
  adapter_ready: t.Boolean({
    description: 'whether it could be called: its kind is known, and a credential is there where one is needed',
  }),
  ...HEALTH,
}
export const ProviderStates = t.Array(t.Object(PROVIDER_STATE))

const MODEL: Readonly<Record<keyof ReturnType<typeof modelHealth>, TSchema>> = {
  model_id: t.String(),
  model: t.String({ description: 'its name in the registry' }),
  breaker: t.Union([t.Literal('closed'), t.Literal('open'), t.Literal('half_open')]),
  ejected: t.Boolean({ description: 'taken out because it fails far more than its peers' }),
  cooling_down: t.Boolean({ description: 'after a 429 of its own' }),
  health: share('0: it fails always'),
  ttft_ms: ms('moving mean of the time to the first token'),
  e2e_ms: ms('moving mean of the whole time'),
  tokens_per_second: Nullable(t.Number({ minimum: 0 })),
  in_flight: count('calls of it that are under way'),
  headroom: Nullable(share('of its rate limit that is left, as the provider says')),
  feedback: Nullable(t.Number({ minimum: -1, maximum: 1, description: 'mean' })),
}

const { trigger, ok, latency_ms, error_code, upstream_status, models } = ProbeRecorded.properties
const PROBE = { checked_at: Moment, trigger, ok, latency_ms, error_code, upstream_status, models }

/** One provider of the snapshot. */
export const ProviderHealthRow = t.Object(
  {
    ...PROVIDER_STATE,
    models: t.Array(t.Object(MODEL)),
    probes: t.Optional(
      t.Array(t.Object(PROBE), {
        description: 'with `provider_id`: its recent probes by any instance, newest first; `status` is by them',
      }),
    ),
    probes_complete: t.Optional(
      t.Boolean({
        description:
          'false: the read store cannot be read now, and `probes` are those of this instance since it started',
      }),
    ),
  },
  { title: 'ProviderHealth' },
)

export const ProbeAnswer = t.Object(
  {
    provider_id: t.String(),
    provider: t.String({ description: 'its name' }),
    status: t.Union([t.Literal('healthy'), t.Literal('unhealthy')]),
    ...PROBE,
    message: Nullable(t.String({ description: 'why it failed' })),
  },
  { title: 'Probe' },
)

export const COMPONENTS = ['cost', 'latency', 'health', 'priority', 'feedback'] as const
const SCORE = {
  components: t.Object(Object.fromEntries(COMPONENTS.map((name) => [name, share('1: the best of those compared')]))),
  rank: share('the weighted mean of the components'),
}
const OF_PROVIDER = { provider_id: t.String(), provider: t.String({ description: 'its name' }) }

export const ScoresAnswer = t.Object(
  {
    frame: count('number of the frame that they were computed from'),
    providers: t.Array(t.Object({ ...OF_PROVIDER, models: count('how many it was averaged over'), ...SCORE }), {
      description: 'the best first',
    }),
    models: t.Array(t.Object({ model_id: t.String(), model: t.String(), ...OF_PROVIDER, ...SCORE }), {
      description: 'compared with those that serve the same name, the best first',
    }),
  },
  { title: 'Scores' },
)
