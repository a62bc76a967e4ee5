// The request of the OpenAI shape: the client's own bytes, of which only what must differ is edited.
import { type Edit, editMembers, memberText, setMember, topLevel } from '../lib/json-edit.ts'
import { isObject } from '../wire/json.ts'
import type { ChatCall, Target, UpstreamRequest } from './provider.ts'
import { arrayOf, objectOf, textOf } from './read-json.ts'

/** How a kind of this shape differs from the others: a row of the table in `kinds.ts`. */
export interface RequestQuirks {
  /** Fields that this upstream refuses or does not know, and so never gets. */
  readonly drop: readonly string[]
  /** `max_tokens` is refused by its reasoning models, which want `max_completion_tokens`. */
  readonly reasoningFamilies: boolean
  readonly headers?: (target: Target) => Readonly<Record<string, string>>
}

// They steer the gateway; the intent station has acted on them already.
const GATEWAY_ONLY = ['prompt', 'system', 'tool_execution'] as const

/** `o1`, `o3-mini`, `gpt-5`, `gpt-5.1`, later majors; not `gpt-5-chat-latest`. Fine-tuned ones are `ft:<model>:...`. */
const REASONING = /^(?:ft:)?(?:o\d|gpt-(?:[5-9]|\d\d)(?!(?:\.\d+)?-chat))/

/** `<base>/chat/completions`, also when the base has a query (`?api-version=`) or slashes at its end. */
export const joinUrl = (baseUrl: string, path: string): string => {
  const hash = baseUrl.indexOf('#')
  const whole = hash === -1 ? baseUrl : baseUrl.slice(0, hash)
  const query = whole.indexOf('?')
  const base = query === -1 ? whole : whole.slice(0, query)
  let end = base.length
  while (base.charCodeAt(end - 1) === 47) end--
  return `${base.slice(0, end)}${path}${query === -1 ? '' : whole.slice(query)}`
}

export const bearer = (secret: string | null): Readonly<Record<string, string>> =>
  secret === null ? {} : { authorization: `Bearer ${secret}` }

const SET_REMOVE: Edit = { do: 'remove' }

/** `options.forward` and `options.drop` of a provider: names of fields that it takes, or does not, against the rule of its kind. */
const dropped = (quirks: RequestQuirks, { options }: Target): readonly string[] => {
  if (options.forward === undefined && options.drop === undefined) return quirks.drop
  const forward = arrayOf(options.forward)
  const more = arrayOf(options.drop).flatMap((name) => textOf(name) ?? [])
  if (forward.length === 0 && more.length === 0) return quirks.drop
  return [...quirks.drop, ...more].filter((name) => !forward.includes(name) && name !== 'model' && name !== 'messages')
}

export const openaiRequest = (call: ChatCall, target: Target, quirks: RequestQuirks): UpstreamRequest => {
  const { raw, body } = call
  const modelJson = JSON.stringify(target.upstreamModel)
  const edits = new Map<string, Edit>()
  const shaping: string[] = []
  const drop = (name: string, why = '') => {
    edits.set(name, SET_REMOVE)
    shaping.push(`dropped ${name}${why}`)
  }

  for (const name of GATEWAY_ONLY) if (body[name] !== undefined) edits.set(name, SET_REMOVE)
  for (const name of dropped(quirks, target)) if (body[name] !== undefined) drop(name)
  if (body.seed !== undefined && !edits.has('seed') && !call.capabilities.includes('seed')) drop('seed')

  if (body.max_tokens !== undefined && !edits.has('max_tokens')) {
    const wins = body.max_completion_tokens !== undefined && body.max_completion_tokens !== null
    if (wins) drop('max_tokens', ': max_completion_tokens wins')
    else if (quirks.reasoningFamilies && REASONING.test(target.upstreamModel)) {
      edits.set('max_tokens', { do: 'rename', to: 'max_completion_tokens' })
      shaping.push('renamed max_tokens to max_completion_tokens')
    } else if (body.max_completion_tokens === null) edits.set('max_completion_tokens', SET_REMOVE)
  }

  const asked = objectOf(body.stream_options).include_usage === true
  if (target.usageOnStream && call.stream && !asked) {
    const options = isObject(body.stream_options) ? memberText(raw, 'stream_options') : null
    const include = new Map<string, Edit>([['include_usage', { do: 'set', json: 'true' }]])
    edits.set('stream_options', { do: 'set', json: editMembers(options ?? '{}', include) })
    shaping.push('added stream_options.include_usage')
  }

  const members = topLevel(raw)
  for (const { key } of members) {
    // Servers written in Go read `Model` as `model` too: the model that was authorised is the only one that is named.
    if (key.length === 5 && key !== 'model' && key.toLowerCase() === 'model') drop(key)
  }
  if (edits.size > 0) edits.set('model', { do: 'set', json: modelJson })
  return {
    method: 'POST',
    url: joinUrl(target.baseUrl, '/chat/completions'),
    headers: {
      'content-type': 'application/json',
      accept: call.stream ? 'text/event-stream' : 'application/json',
      ...bearer(target.secret),
      ...quirks.headers?.(target),
    },
    body: edits.size === 0 ? setMember(raw, 'model', modelJson, members) : editMembers(raw, edits, members),
    shaping,
  }
}
