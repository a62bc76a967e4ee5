// `POST /v1/feedback`: what a client thinks of an answer that it got. In the log before it is acknowledged, like an outcome.

import { DEFAULT_METRIC, type FeedbackGiven, MAX_COMMENT_BYTES, Metric, Score, SentTags } from '../domain/feedback.ts'
import { closed, Nullable } from '../domain/fields.ts'
import { flawOf } from '../lib/flaw.ts'
import { newId } from '../lib/ids.ts'
import { pause } from '../lib/pause.ts'
import { type Static, t } from '../lib/schema.ts'
import { SpoolClosed } from '../log/spool-port.ts'
import type { FeedbackMeans } from '../state/feedback-means.ts'
import { GatewayError } from '../wire/errors.ts'
import { authenticate, requireScope } from './authenticate.ts'
import { readJsonBody } from './body.ts'
import type { InferenceDeps } from './deps.ts'

/** A request that somebody gives feedback on. */
export interface FoundRequest {
  readonly id: string
  readonly requestId: string
  readonly providerId: string | null
  readonly modelId: string | null
}

/** The request log of all instances. Both throw when it cannot be read now. */
export interface RequestLookup {
  /** By id, else the tenant's latest with that label. `foreign`: the id is another tenant's. Null: not there. */
  find(idOrLabel: string, tenantId: string): Promise<FoundRequest | 'foreign' | null>
  /** Whether it has caught up with the log, so that what it does not know does not exist. */
  isCurrent(): Promise<boolean>
}

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
  'live' | 'keys' | 'lastUses' | 'inference' | 'spool' | 'served' | 'feedback' | 'requestLookup'
>

const BODY_LIMIT_BYTES = 64 * 1024
/** How long a label that nobody knows yet is looked for. */
const LOOK_FOR_MS = 2_000
const LOOK_AGAIN_MS = 400
/** An id that is younger may be on its way from another instance. */
const YOUNG_MS = 60_000
const OUR_ID = /^req_([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** What a client may say. The number is at most 1 and at least -1. */
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
  const flaw = flawOf(FeedbackBody, body)
  if (flaw !== null) throw new GatewayError('invalid_request', flaw.message, { param: flaw.param })
  const given = body as Static<typeof FeedbackBody>
  if (typeof given.score === 'number' && flawOf(Score, given.score) !== null) {
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

/** Takes feedback of an authenticated caller. Throws 400, 401, 403, 404 (never a false one), 429, or 502 when it cannot be known whether the request exists. */
export const giveFeedback = async (request: Request, atMs: number, deps: FeedbackDeps): Promise<FeedbackView> => {
  const key = authenticate(request.headers, deps, atMs)
  requireScope(key, 'inference')
  const { body } = await readJsonBody(request, BODY_LIMIT_BYTES)
  const { request_id, score, comment = null, metric = DEFAULT_METRIC, tags = {} } = checkedBody(body)
  const found = await requestOf(request_id, key.tenantId, atMs, deps)
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
    await spool.append('requests', 'feedback.given', subject, JSON.stringify(data), true)
  } catch (error) {
    if (!(error instanceof SpoolClosed))
      throw new GatewayError('internal_error', 'the feedback could not be recorded', { cause: error })
    // Written, though not shipped in time: it will be in the log all the same.
    if (error.written === null)
      throw new GatewayError('rate_limited', `no feedback is taken now: ${error.message}`, { retryAfterS: 1 })
  }
}

const remember = ({ request, metric, model_id, score, at_ms }: FeedbackGiven, feedback: FeedbackMeans): void => {
  if (model_id !== null) feedback.add(request, metric, { modelId: model_id, score, atMs: at_ms })
}

const unknown = (id: string): GatewayError =>
  new GatewayError('not_found', `no request has the id or label "${id}"`, { param: 'request_id' })

/** The request that is meant: of this process's memory, else of the request log. */
const requestOf = async (
  idOrLabel: string,
  tenantId: string,
  atMs: number,
  { served, requestLookup }: FeedbackDeps,
): Promise<FoundRequest> => {
  const here = served.find(idOrLabel, tenantId)
  if (here === 'foreign') throw unknown(idOrLabel)
  if (here !== null) return here
  const bornMs = bornAtMs(idOrLabel)
  const giveUpMs = performance.now() + LOOK_FOR_MS
  try {
    for (;;) {
      const found = await requestLookup.find(idOrLabel, tenantId)
      if (found === 'foreign') throw unknown(idOrLabel)
      if (found !== null) return found
      // An id of ours says how old it is; a label may be of a request that was answered a moment ago.
      if (bornMs !== null && atMs - bornMs > YOUNG_MS) break
      if (performance.now() + LOOK_AGAIN_MS > giveUpMs) break
      await pause(LOOK_AGAIN_MS)
    }
    const mayArrive = bornMs !== null && atMs - bornMs <= YOUNG_MS
    if (!mayArrive && (await requestLookup.isCurrent())) throw unknown(idOrLabel)
  } catch (error) {
    if (error instanceof GatewayError) throw error
    throw notKnownYet(error)
  }
  throw notKnownYet()
}

const notKnownYet = (cause?: unknown): GatewayError =>
  new GatewayError('upstream_error', 'it cannot be known now whether this request exists; try again', {
    retryAfterS: 1,
    cause,
  })

/** When an id of ours was made, Unix milliseconds; null for anything else. */
const bornAtMs = (id: string): number | null => {
  const match = OUR_ID.exec(id)
  return match === null ? null : Number.parseInt(match[1]! + match[2]!, 16)
}
