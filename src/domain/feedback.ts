// What people thought of an answer: `feedback.given`, in `gateway.requests.v1`. Stored for ever once shipped.
import { type Static, t } from '../lib/schema.ts'
import { Id, Nullable } from './fields.ts'

export const MAX_COMMENT_BYTES = 4_096
const MAX_TAGS = 16

/** -1 to 1. */
export const Score = t.Number({ minimum: -1, maximum: 1 })
/** What is scored. */
export const Metric = t.String({ minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9_.:-]+$' })
export const DEFAULT_METRIC = 'quality'
export const Tags = t.Record(t.String({ minLength: 1, maxLength: 64 }), t.String({ maxLength: 256 }), {
  maxProperties: MAX_TAGS,
})
/** As a client may send them. The pattern of the record above says nothing of names that hold a line feed: whatever they hold would pass. */
export const SentTags = t.Record(t.String({ pattern: '^[\\s\\S]{1,64}$' }), t.String({ maxLength: 256 }), {
  maxProperties: MAX_TAGS,
  additionalProperties: false,
})

export const FeedbackGiven = t.Object({
  id: Id,
  /** Unix milliseconds. */
  at_ms: t.Integer(),
  tenant_id: Id,
  key_id: Id,
  /** Our own id of the request: with tenant and metric what a repeat replaces. */
  request: t.String({ maxLength: 128 }),
  /** What the client called it. */
  request_id: t.String({ maxLength: 128 }),
  /** Who answered, as far as it is known. */
  provider_id: Nullable(Id),
  model_id: Nullable(Id),
  score: Score,
  comment: Nullable(t.String({ maxLength: MAX_COMMENT_BYTES })),
  metric: Metric,
  tags: Tags,
})
export type FeedbackGiven = Static<typeof FeedbackGiven>

export const FEEDBACK_EVENTS = { 'feedback.given': FeedbackGiven } as const
