// Events of `gateway.operations.v1` about the health of providers: breaker moves, probes, and frames of the volatile
// inputs of plans. Stored for ever once shipped.
import { type Static, t } from '../../lib/schema/schema.ts'
import { described, Id, Nullable } from '../kernel/fields.ts'

const Count = t.Integer({ minimum: 0 })
const Name = t.String({ maxLength: 256 })

const at = { at_ms: t.Integer({ description: 'When it happened, Unix milliseconds.' }) }
const ofProvider = {
  provider_id: described(Id, 'The provider.'),
  provider: described(Name, 'Its name.'),
}

/** One candidate: a model of one provider. */
const Subject = {
  ...at,
  ...ofProvider,
  model_id: described(Id, 'The model.'),
  model: described(Name, 'Its name in the registry.'),
}

const Seen = {
  requests: described(Count, 'Calls of the last 60 s that counted.'),
  failures: described(Count, 'Those of them that failed.'),
}

export const BreakerOpened = t.Object({
  ...Subject,
  ...Seen,
  reason: t.Union([t.Literal('consecutive'), t.Literal('rate'), t.Literal('trial')], {
    description: 'Failures in a row, too large a share of failures, or a trial that failed.',
  }),
  cooldown_ms: described(Count, 'How long nothing is sent there.'),
})
/** The cooldown is over: one trial at a time may be made. */
export const BreakerHalfOpened = t.Object(Subject)
export const BreakerClosed = t.Object({
  ...Subject,
  ...Seen,
  reason: t.Union([t.Literal('trial'), t.Literal('cleared')], {
    description: 'A trial went well, or an operator cleared it.',
  }),
})

export const ProbeRecorded = t.Object({
  ...at,
  ...ofProvider,
  trigger: t.Union([t.Literal('scheduled'), t.Literal('manual')], {
    description: '`scheduled`: by the gateway itself. `manual`: by an operator.',
  }),
  ok: t.Boolean({ description: 'Whether the provider answered as it should.' }),
  latency_ms: described(Count, 'Time that it took.'),
  error_code: Nullable(t.String({ maxLength: 64 }), 'Why it failed.'),
  upstream_status: Nullable(t.Integer(), 'HTTP status of the provider.'),
  models: Nullable(Count, 'How many models it lists; null where its kind cannot list.'),
})
export type ProbeRecorded = Static<typeof ProbeRecorded>
/** So many of each provider are its recent ones. */
export const MOST_PROBES = 50

/** 0 closed, 1 open, 2 half open. */
const BreakerCode = t.Union([t.Literal(0), t.Literal(1), t.Literal(2)])
/**
 * `[model id, breaker, ejected, cooling down, health, ttft ms, e2e ms, tokens per second, in flight, headroom,
 * feedback]`, exactly as the plans of that frame read it (`Signals` of state/health/frame.ts).
 */
export const FrameRow = t.Tuple([
  Id,
  BreakerCode,
  t.Boolean(),
  t.Boolean(),
  t.Number(),
  Nullable(t.Number()),
  Nullable(t.Number()),
  Nullable(t.Number()),
  Count,
  Nullable(t.Number()),
  Nullable(t.Number()),
])
export type FrameRow = Static<typeof FrameRow>

/** Rows in one record: it stays well below 64 KiB. */
export const FRAME_ROWS = 400

/**
 * A frame: what an outcome's `frame` names, within one instance and epoch. `whole`: its parts hold every candidate with
 * an observation, and the others have none; else its parts hold those that changed since the frame before.
 */
export const FrameTaken = t.Object({
  number: t.Integer({ minimum: 1, description: 'What an outcome’s `frame` names, within one instance and epoch.' }),
  ...at,
  whole: t.Boolean({
    description:
      'True: its parts hold every candidate that anything is known of. False: those that changed since the frame ' +
      'before.',
  }),
  part: t.Integer({ minimum: 1, description: 'From 1.' }),
  parts: t.Integer({ minimum: 1, description: 'How many records make this frame.' }),
  candidates: t.Array(FrameRow, {
    maxItems: FRAME_ROWS,
    description:
      '`[model id, breaker (0 closed, 1 open, 2 half open), ejected, cooling down, health, first token ms, total ' +
      'ms, tokens per second, in flight, headroom, feedback]`, as the plans of the frame saw it.',
  }),
})
export type FrameTaken = Static<typeof FrameTaken>

export const HEALTH_EVENTS = {
  'breaker.opened': BreakerOpened,
  'breaker.half_opened': BreakerHalfOpened,
  'breaker.closed': BreakerClosed,
  'probe.recorded': ProbeRecorded,
  'frame.taken': FrameTaken,
} as const
export type HealthEventType = keyof typeof HEALTH_EVENTS
export type HealthEvent = {
  [Type in HealthEventType]: {
    readonly type: Type
    /** Partition key: instance of a frame, model of a breaker, provider of a probe. Null: the instance. */
    readonly subject: string | null
    readonly data: Static<(typeof HEALTH_EVENTS)[Type]>
  }
}[HealthEventType]
