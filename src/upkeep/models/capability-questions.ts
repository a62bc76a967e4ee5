// Small questions that show what a model can do, and what an answer, or a refusal, is evidence of. Pure.
import { parseInner } from '../../lib/json/exact-json.ts'
import type { Capability } from '../../providers/port.ts'
import type { GatewayError } from '../../wire/errors.ts'
import { isObject } from '../../wire/json.ts'

/** `proven` and `disproved` only on evidence; `skipped` was not sent; everything else is `indeterminate`. */
export type Verdict = 'proven' | 'disproved' | 'indeterminate' | 'skipped'

export interface Judgement {
  readonly verdict: Verdict
  /** Safe to show and to log: it quotes neither the provider nor the prompt. */
  readonly detail: string
}

/** The result of a question. */
export interface Reply {
  readonly text: string
  readonly toolNames: readonly string[]
  readonly finishReason: string | null
  readonly streamed: boolean
  readonly contentParts: number
  /** What the kind dropped, renamed or clamped on the way. */
  readonly shaping: readonly string[]
}

export interface Question {
  readonly capability: Capability
  /** A chat completion without its model. */
  readonly body: Readonly<Record<string, unknown>>
  /** Sent in its place when the first is refused: it forces nothing. */
  readonly gentler?: Readonly<Record<string, unknown>>
  /** The field that requests the capability: a kind that drops it never had it. */
  readonly field: string | null
  /** What a refusal for want of the capability names. */
  readonly refusal: RegExp
  /** Refusals that are no evidence all the same. */
  readonly excuse?: RegExp
  judge(reply: Reply): Judgement
}

const proven = (detail: string): Judgement => ({ verdict: 'proven', detail })
const indeterminate = (detail: string): Judgement => ({ verdict: 'indeterminate', detail })

const user = (content: unknown) => [{ role: 'user', content }]
/** A model that reasons before it answers needs some room; the others stop by themselves. */
const ROOM = { max_completion_tokens: 256 }
const SHORT = { max_completion_tokens: 16 }

const noteTool = (name: string) => ({
  type: 'function',
  function: {
    name,
    description: 'Notes a city',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
      additionalProperties: false,
    },
  },
})

/** Values that no model would choose by itself. */
const SCHEMA = {
  type: 'object',
  properties: { zq_mark: { type: 'string', enum: ['zq7'] }, zq_count: { type: 'integer' } },
  required: ['zq_mark', 'zq_count'],
  additionalProperties: false,
}

/** 64 by 64 pixels, all red: some models take no smaller image. */
const RED_SQUARE =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAS0lEQVR42u3PQQkAAAgAsetfWiP4FgYrsKZeS0BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEDgsqnc8OJg6Ln3AAAAAElFTkSuQmCC'

const jsonOf = (text: string): unknown => {
  try {
    return parseInner(text)
  } catch {
    return undefined // no JSON: the verdict covers it
  }
}

/** In the order in which they are sent: without `chat` the others are of no use. */
export const QUESTIONS: readonly Question[] = [
  {
    capability: 'chat',
    body: { messages: user('Reply with the one word: ok'), ...SHORT },
    field: null,
    refusal: /not a chat model|chat\/completions|does not support chat/i,
    judge: () => proven('it answered'),
  },
  {
    capability: 'streaming',
    body: { messages: user('Reply with the one word: ok'), stream: true, ...SHORT },
    field: 'stream',
    refusal: /\bstream/i,
    judge: ({ streamed, contentParts, finishReason }) => {
      if (!streamed) return indeterminate('it answered all at once, not as a stream')
      return contentParts > 0 || finishReason === 'length'
        ? proven(`it streamed ${contentParts} part${contentParts === 1 ? '' : 's'}`)
        : indeterminate('the stream held no content')
    },
  },
  {
    capability: 'tools',
    gentler: {
      messages: user('Call the tool note_city for a trip in Paris.'),
      tools: [noteTool('note_city')],
      ...ROOM,
    },
    body: {
      messages: user('Call the tool note_city for a trip in Paris.'),
      tools: [noteTool('note_city')],
      tool_choice: { type: 'function', function: { name: 'note_city' } },
      ...ROOM,
    },
    field: 'tools',
    refusal: /\btools?\b|\bfunctions?\b/i,
    judge: ({ toolNames }) =>
      toolNames.includes('note_city') ? proven('it called the tool') : indeterminate('it answered without a call'),
  },
  {
    capability: 'json_mode',
    body: {
      messages: user('Answer with a JSON object that has one member "ok" with the value true.'),
      response_format: { type: 'json_object' },
      ...ROOM,
    },
    field: 'response_format',
    refusal: /response_format|json_object|json mode/i,
    judge: ({ text }) =>
      isObject(jsonOf(text)) ? proven('it answered with a JSON object') : indeterminate('its answer is no JSON object'),
  },
  {
    capability: 'json_schema',
    body: {
      messages: user('Describe a bicycle.'),
      response_format: { type: 'json_schema', json_schema: { name: 'mark', strict: true, schema: SCHEMA } },
      ...ROOM,
    },
    field: 'response_format',
    refusal: /response_format|json_schema|structured output|output_config|output_format|response_?schema/i,
    judge({ text }) {
      const value = jsonOf(text)
      const fits = isObject(value) && value.zq_mark === 'zq7' && Number.isInteger(value.zq_count)
      return fits ? proven('its answer has the form of the schema') : indeterminate('its answer does not have the form')
    },
  },
  {
    capability: 'parallel_tool',
    body: {
      messages: user('Call note_city for a trip in Paris and, at the same time, once more for a trip in Rome.'),
      tools: [noteTool('note_city')],
      parallel_tool_calls: true,
      ...ROOM,
    },
    field: 'parallel_tool_calls',
    refusal: /parallel_?tool|disable_parallel/i,
    judge: ({ toolNames }) =>
      toolNames.length > 1
        ? proven(`it made ${toolNames.length} calls at once`)
        : indeterminate('it took the field and made no two calls at once'),
  },
  {
    capability: 'seed',
    body: { messages: user('Reply with the one word: ok'), seed: 7, ...SHORT },
    field: 'seed',
    refusal: /\bseed\b|random_seed/i,
    judge: () => proven('it takes the field'),
  },
  {
    capability: 'vision',
    body: {
      messages: user([
        { type: 'text', text: 'What colour is this image? Answer with one English word.' },
        { type: 'image_url', image_url: { url: RED_SQUARE } },
      ]),
      ...ROOM,
    },
    field: null,
    refusal: /image|vision|multi-?modal|modalit|content (?:type|part)/i,
    excuse: /small|dimension|resolution|pixel|\bsize\b/i,
    judge: ({ text }) =>
      /\bred\b/i.test(text)
        ? proven('it named the colour')
        : indeterminate('it took the image and did not see its colour'),
  },
]

const isDropped = (shaped: string, field: string): boolean =>
  shaped === `dropped ${field}` || shaped.startsWith(`dropped ${field} `) || shaped.startsWith(`dropped ${field}:`)

/**
 * What an answer is evidence of. A field that the kind does not send cannot have been accepted, unless the kind states
 * that it need not be sent (`claimed`).
 */
export const judgeReply = (question: Question, reply: Reply, claimed: readonly Capability[]): Judgement => {
  const { field, capability } = question
  const dropped =
    field !== null && !claimed.includes(capability) && reply.shaping.some((shaped) => isDropped(shaped, field))
  return dropped
    ? { verdict: 'disproved', detail: `the kind of this provider does not send "${field}"` }
    : question.judge(reply)
}

/** What a failure is evidence of: only a refusal of the request that names the requested capability is. */
export const judgeFailure = (question: Question, { code, param, message, upstreamStatus }: GatewayError): Judgement => {
  const status = upstreamStatus === undefined ? '' : `, status ${upstreamStatus}`
  const refusalText = `${param ?? ''} ${message}`
  if (code === 'invalid_request' && question.refusal.test(refusalText) && question.excuse?.test(refusalText) !== true)
    return { verdict: 'disproved', detail: `it refused the field (${code}${status})` }
  return indeterminate(`the question failed (${code}${status})`)
}
