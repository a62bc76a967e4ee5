// Events of `gateway.operations.v1` about the health of providers: breaker moves, probes, and frames of the volatile inputs of plans. Stored for ever once shipped.
import { type Static, t } from '../lib/schema.ts'
import { Id, Nullable } from './fields.ts'

const Count = t.Integer({ minimum: 0 })
const Name = t.String({ maxLength: 256 })

/** One candidate: a model of one provider. */
const Subject = {
  /** Unix milliseconds. */
  at_ms: t.Integer(),
  provider_id: Id,
  provider: Name,
  model_id: Id,
  model: Name,
}

const Seen = {
  /** Of the last 60 s: calls that counted, and those of them that failed. */
  requests: Count,
  failures: Count,
}

export const BreakerOpened = t.Object({
  ...Subject,
  ...Seen,
  reason: t.Union([t.Literal('consecutive'), t.Literal('rate'), t.Literal('trial')]),
  cooldown_ms: Count,
})
/** The cooldown is over: one trial at a time may be made. */
export const BreakerHalfOpened = t.Object(Subject)
export const BreakerClosed = t.Object({
  ...Subject,
  ...Seen,
  /** `cleared`: by an operator. */
  reason: t.Union([t.Literal('trial'), t.Literal('cleared')]),
})

export const ProbeRecorded = t.Object({
  at_ms: t.Integer(),
  provider_id: Id,
  provider: Name,
  /** `scheduled`: by the gateway itself. */
  trigger: t.Union([t.Literal('scheduled'), t.Literal('manual')]),
  ok: t.Boolean(),
  latency_ms: Count,
  error_code: Nullable(t.String({ maxLength: 64 })),
  upstream_status: Nullable(t.Integer()),
  /** How many models it lists; null where its kind cannot list. */
  models: Nullable(Count),
})
export type ProbeRecorded = Static<typeof ProbeRecorded>

/** 0 closed, 1 open, 2 half open. */
const BreakerCode = t.Union([t.Literal(0), t.Literal(1), t.Literal(2)])
/**
 * `[model id, breaker, ejected, cooling down, health, ttft ms, e2e ms, tokens per second, in flight, headroom, feedback]`, exactly as the plans of that frame saw it
 * (`Signals` of state/frame.ts).
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
 * A frame: what an outcome's `frame` names, within one instance and epoch. `whole`: every candidate that anything is known of stands in its parts, and the others
 * are unseen; else those that changed since the frame before.
 */
export const FrameTaken = t.Object({
  number: t.Integer({ minimum: 1 }),
  at_ms: t.Integer(),
  whole: t.Boolean(),
  /** From 1. */
  part: t.Integer({ minimum: 1 }),
  parts: t.Integer({ minimum: 1 }),
  candidates: t.Array(FrameRow, { maxItems: FRAME_ROWS }),
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
