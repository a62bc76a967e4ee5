// `POST /v1/feedback`: a client's rating of an answer. In the log before it is acknowledged, like an outcome.

import {
  DEFAULT_METRIC,
  type FeedbackGiven,
  MAX_COMMENT_BYTES,
  Metric,
  Score,
  SentTags,
} from '../../domain/events/feedback.ts'
import { closed, Nullable } from '../../domain/kernel/fields.ts'
import { authenticate, requireScope } from '../../entry/authenticate.ts'
import { readJsonBody } from '../../entry/body.ts'
import { newId } from '../../lib/crypto/ids.ts'
import { firstError } from '../../lib/schema/first-error.ts'
import { type Static, t } from '../../lib/schema/schema.ts'
import { REFUSABLE, SpoolClosed } from '../../log/spool/spool.ts'
import type { FeedbackMeans } from '../../state/health/feedback-means.ts'
import { GatewayError } from '../../wire/errors.ts'
import { spoolClosed } from '../records/admit.ts'
import type { InferenceDeps } from '../request/deps.ts'
import { findRequest } from './request-search.ts'

/** The answer, 201. */
export const FeedbackView = t.Object({
  id: t.String(),
  request_id: t.String(),
  score: Score,
  comment: Nullable(t.String()),
  metric: Metric,
  created_at: t.String(),
})
export type FeedbackView = Readonly<Static<typeof FeedbackView>>

export type FeedbackDeps = Pick<
  InferenceDeps,
  'live' | 'keys' | 'lastUses' | 'inference' | 'spool' | 'recentRequests' | 'feedback' | 'requestLookup'
>

const BODY_LIMIT_BYTES = 64 * 1024

/** The feedback of a client. The number is at most 1 and at least -1. */
export const FeedbackBody = closed(
  t.Object({
    request_id: t.String({ minLength: 1, maxLength: 128 }),
    score: t.Union([t.Number(), t.Boolean()]),
    comment: t.Optional(t.Union([t.String({ maxLength: MAX_COMMENT_BYTES }), t.Null()])),
    metric: t.Optional(Metric),
    tags: t.Optional(SentTags),
  }),
)

const checkedBody = (body: unknown): Static<typeof FeedbackBody> => {
  const problem = firstError(FeedbackBody, body)
  if (problem !== null) throw new GatewayError('invalid_request', problem.message, { param: problem.param })
  const given = body as Static<typeof FeedbackBody>
  if (typeof given.score === 'number' && firstError(Score, given.score) !== null) {
    throw new GatewayError('invalid_request', '"score" must be a number from -1 to 1, or a boolean', { param: 'score' })
  }
  const comment = given.comment ?? ''
  if (Buffer.byteLength(comment) > MAX_COMMENT_BYTES) {
    throw new GatewayError('invalid_request', `"comment" may be at most ${MAX_COMMENT_BYTES} bytes`, {
      param: 'comment',
    })
  }
  const texts: [string, string][] = [
    ['request_id', given.request_id],
    ['comment', comment],
  ]
  for (const [name, value] of Object.entries(given.tags ?? {})) texts.push(['tags', name], ['tags', value])
  for (const [param, text] of texts) {
    if (text.includes('\0') || !text.isWellFormed())
      throw new GatewayError('invalid_request', `"${param}" holds characters that cannot be stored`, { param })
  }
  return given
}

/**
 * Takes feedback of an authenticated caller. Throws 400, 401, 403, 404 (never a false one), 429, or 502 when it is not
 * certain whether the request exists.
 */
export const giveFeedback = async (request: Request, atMs: number, deps: FeedbackDeps): Promise<FeedbackView> => {
  const key = authenticate(request.headers, deps, atMs)
  requireScope(key, 'inference')
  const { body } = await readJsonBody(request, BODY_LIMIT_BYTES)
  const { request_id, score, comment = null, metric = DEFAULT_METRIC, tags = {} } = checkedBody(body)
  const { signal } = request
  const query = { idOrLabel: request_id, tenantId: key.tenantId, atMs, signal, param: 'request_id' }
  const found = await findRequest(query, deps)
  const data: FeedbackGiven = {
    id: newId('fb'),
    at_ms: atMs,
    tenant_id: key.tenantId,
    key_id: key.id,
    request: found.id,
    request_id: found.requestId,
    provider_id: found.providerId,
    model_id: found.modelId,
    score: typeof score === 'number' ? score : score ? 1 : -1,
    comment,
    metric,
    tags,
  }
  await record(data, deps)
  remember(data, deps.feedback)
  return {
    id: data.id,
    request_id,
    score: data.score,
    comment,
    metric,
    created_at: new Date(data.at_ms).toISOString(),
  }
}

const record = async (data: FeedbackGiven, { spool }: FeedbackDeps): Promise<void> => {
  const subject = `${data.tenant_id}/${spool.instance}`
  try {
    await spool.append('requests', 'feedback.given', subject, JSON.stringify(data), REFUSABLE)
  } catch (error) {
    if (!(error instanceof SpoolClosed))
      throw new GatewayError('internal_error', 'the feedback could not be recorded', { cause: error })
    // Written, though not shipped in time: the record will be in the log.
    if (error.written === null) throw spoolClosed('no feedback is taken now', error)
  }
}

const remember = ({ request, metric, model_id, score, at_ms }: FeedbackGiven, feedback: FeedbackMeans): void => {
  if (model_id !== null) feedback.add(request, metric, { modelId: model_id, score, atMs: at_ms })
}
