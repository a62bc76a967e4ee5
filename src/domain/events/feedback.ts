// Ratings of answers: `feedback.given`, in `gateway.requests.v1`. Stored for ever once shipped.
import { type Static, t } from '../../lib/schema/schema.ts'
import { described, Id, Nullable } from '../kernel/fields.ts'

export const MAX_COMMENT_BYTES = 4_096
const MAX_TAGS = 16

/** -1 to 1. */
export const Score = t.Number({ minimum: -1, maximum: 1 })
/** The rated quality. */
export const Metric = t.String({ minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9_.:-]+$' })
export const DEFAULT_METRIC = 'quality'
export const Tags = t.Record(t.String({ minLength: 1, maxLength: 64 }), t.String({ maxLength: 256 }), {
  maxProperties: MAX_TAGS,
})
/**
 * Tags as a client may send them. The pattern of the record above does not match names with a line feed, so their
 * values would not be checked.
 */
export const SentTags = t.Record(t.String({ pattern: '^[\\s\\S]{1,64}$' }), t.String({ maxLength: 256 }), {
  maxProperties: MAX_TAGS,
  additionalProperties: false,
})

/** The schema holds the descriptions: the topic contracts are generated from it. */
export const FeedbackGiven = t.Object({
  id: described(Id, 'Of this feedback.'),
  at_ms: t.Integer({ description: 'When it was given, Unix milliseconds.' }),
  tenant_id: described(Id, 'The tenant whose request it is about.'),
  key_id: described(Id, 'The API key that gave it.'),
  request: t.String({
    maxLength: 128,
    description: 'The gateway’s own id of the request: with tenant and metric what a repeat replaces.',
  }),
  request_id: t.String({ maxLength: 128, description: 'What the client called it.' }),
  provider_id: Nullable(Id, 'Who answered, as far as it is known.'),
  model_id: Nullable(Id, 'The model that answered, as far as it is known.'),
  score: described(Score, '-1 (bad) to 1 (good).'),
  comment: Nullable(t.String({ maxLength: MAX_COMMENT_BYTES }), 'What the client wrote.'),
  metric: described(Metric, 'What is scored; `quality` when the client did not say.'),
  tags: described(Tags, 'The client’s own labels.'),
})
export type FeedbackGiven = Static<typeof FeedbackGiven>

export const FEEDBACK_EVENTS = { 'feedback.given': FeedbackGiven } as const
