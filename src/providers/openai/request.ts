// The request of the OpenAI shape: the client's own bytes, edited only where they must differ.
import { type Edit, editMembers } from '../../lib/json/edit.ts'
import { withoutRepeats } from '../../lib/json/repeats.ts'
import { GatewayError } from '../../wire/errors.ts'
import { isObject } from '../../wire/json.ts'
import type { ChatCall, Target, UpstreamRequest } from '../port.ts'
import { arrayOf, objectOf, textOf } from '../shared/read-json.ts'
import { bearer, joinUrl } from '../shared/target-url.ts'
import { textWithoutWithheld, whyWithheld, withholdsInside } from '../shared/vendor-fields.ts'
import { RequestDraft } from './draft.ts'
import { withoutEmptyTools, withoutOwnMessages } from './edits.ts'

/** The differences of a kind of this shape in its requests: part of its row in `rows.ts`. Every member is optional. */
export interface RequestQuirks {
  /** Fields that this upstream refuses or does not support, and so never gets. */
  readonly drop?: readonly string[]
  /** Those of them that no setting of a provider may forward. */
  readonly never?: readonly string[]
  /** Further ones, by the upstream's name of the model. */
  readonly dropFor?: (upstreamModel: string) => readonly string[]
  /** The client's name of a field -> this upstream's. */
  readonly rename?: Readonly<Record<string, string>>
  /** The one name under which it takes the limit of tokens. Absent: the name that the client used. */
  readonly limit?: 'max_tokens' | 'max_completion_tokens'
  /** `max_tokens` is refused by its reasoning models, which want `max_completion_tokens`. */
  readonly reasoningFamilies?: boolean
  /** Its models before those know `max_tokens` alone. */
  readonly olderFamilies?: boolean
  /** It answers with one choice only: a larger `n` is refused here, naming the field. */
  readonly oneChoice?: boolean
  /** Its streams report usage unrequested, so it is never requested. */
  readonly usageAlways?: boolean
  /** It refuses a request for usage, so the gateway never adds one. */
  readonly usageRefused?: (target: Target, body: ChatCall['body']) => boolean
  /** It knows OpenAI's own messages: the role `developer`, refusals. Absent: they are sent in the common form. */
  readonly takesOwnMessages?: boolean
  /** Edits that no rule above expresses. */
  readonly edit?: (draft: RequestDraft) => void
  readonly headers?: (target: Target) => Readonly<Record<string, string>>
  /** The credential. Absent: `Authorization: Bearer`. */
  readonly authorization?: (target: Target) => Readonly<Record<string, string>>
  /**
   * Absent: `<base>/chat/completions`. No other member may depend on the model: heads are cached for all models of a
   * provider.
   */
  readonly url?: (target: Target) => string
}

// They steer the gateway; the intent station has acted on them already.
const GATEWAY_ONLY = ['prompt', 'system', 'tool_execution'] as const
const NONE: readonly string[] = []
/** The members of nearly every request: these need no check. */
// biome-ignore format: one list
const USUAL = new Set([
  'model', 'messages', 'stream', 'stream_options', 'max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'n',
  'stop', 'seed', 'tools', 'tool_choice', 'parallel_tool_calls', 'response_format', 'user', 'metadata',
  'reasoning_effort', 'frequency_penalty', 'presence_penalty',
])

/**
 * `o1`, `o3-mini`, `gpt-5`, `gpt-5.1` (`gpt-51` as a deployment), later majors; not `gpt-5-chat-latest`,
 * `gpt-35-turbo`, `gpt-41-mini` or `o365-bot`. Fine-tuned ones are `ft:<model>:...`.
 */
const REASONING = /^(?:ft:)?(?:o[1-9]|gpt-(?:[5-9]\d?|[12]\d)(?:\.\d+)?)(?![a-z\d.])(?!-chat)/i

/**
 * `options.forward` and `options.drop` of a provider: names of fields that it takes, or does not, against the rule of
 * its kind.
 */
const dropped = (quirks: RequestQuirks, { options, upstreamModel }: Target): readonly string[] => {
  const own = quirks.drop ?? NONE
  const ruled = quirks.dropFor === undefined ? own : [...own, ...quirks.dropFor(upstreamModel)]
  if (options.forward === undefined && options.drop === undefined) return ruled
  const never = quirks.never ?? NONE
  const forward = arrayOf(options.forward).filter((name) => !never.includes(name as string))
  const more = arrayOf(options.drop).flatMap((name) => textOf(name) ?? [])
  return [...ruled, ...more].filter((name) => !forward.includes(name) && name !== 'model' && name !== 'messages')
}

/** `gpt-35-turbo`, `gpt-3.5-turbo`, `gpt-4`, `gpt-4-32k`; not `gpt-4o`. */
const OLDER = /^gpt-(?:35|3\.5|4)(?=$|-)/i

/** The one name of the limit that a model of this name takes; null when it takes both. */
const limitOfFamily = (
  model: string,
  { reasoningFamilies, olderFamilies }: RequestQuirks,
): RequestQuirks['limit'] | null => {
  if (reasoningFamilies === true && REASONING.test(model)) return 'max_completion_tokens'
  return olderFamilies === true && OLDER.test(model) ? 'max_tokens' : null
}

/** `max_completion_tokens` wins over `max_tokens`, under the name that the upstream takes. */
const limitTokens = (draft: RequestDraft, quirks: RequestQuirks): void => {
  const name = quirks.limit ?? limitOfFamily(draft.target.upstreamModel, quirks)
  const wins = draft.has('max_completion_tokens') && draft.valueOf('max_completion_tokens') !== null
  if (draft.has('max_tokens')) {
    if (wins) draft.drop('max_tokens', ': max_completion_tokens wins')
    else {
      if (draft.valueOf('max_completion_tokens') === null) draft.remove('max_completion_tokens')
      if (name === 'max_completion_tokens') draft.rename('max_tokens', name)
    }
  }
  if (wins && name === 'max_tokens') draft.rename('max_completion_tokens', name)
}

const INCLUDE_USAGE: ReadonlyMap<string, Edit> = new Map([['include_usage', { do: 'set', json: 'true' }]])
const WITH_USAGE = editMembers('{}', INCLUDE_USAGE)

/**
 * Adds a request for usage to a stream: the provider is set so, or a budget needs it, and the client did not request
 * it. An operator whose server refuses that drops the field.
 */
const requestUsage = (draft: RequestDraft, { usageAlways, usageRefused }: RequestQuirks): boolean => {
  const { call, target } = draft
  if (!target.usageOnStream && target.usageForBudget !== true) return false
  if (usageAlways === true || usageRefused?.(target, call.body) === true) return false
  if (arrayOf(target.options.drop).includes('stream_options')) return false
  const given = draft.valueOf('stream_options')
  if (objectOf(given).include_usage === true) return false
  const options = isObject(given) ? draft.textOf('stream_options') : null
  const withUsage = options === null ? WITH_USAGE : editMembers(options, INCLUDE_USAGE)
  draft.set('stream_options', withUsage, 'added stream_options.include_usage')
  return !target.usageOnStream
}

/** True: it requests usage for a budget alone. */
const shape = (draft: RequestDraft, quirks: RequestQuirks, kind: string): boolean => {
  const { call, target } = draft
  for (const name of GATEWAY_ONLY) if (draft.has(name)) draft.remove(name)
  for (const name of dropped(quirks, target)) if (draft.has(name)) draft.drop(name)
  if (draft.has('seed') && !call.capabilities.includes('seed')) draft.drop('seed')
  limitTokens(draft, quirks)
  withoutEmptyTools(draft)
  if (quirks.takesOwnMessages !== true) withoutOwnMessages(draft)
  const n = draft.valueOf('n')
  if (quirks.oneChoice === true && typeof n === 'number' && n > 1 && draft.has('n'))
    throw new GatewayError(
      'invalid_request',
      'The provider of this model answers with one choice: send n as 1, or not at all.',
      { param: 'n' },
    )
  quirks.edit?.(draft)
  if (quirks.rename !== undefined)
    for (const name in quirks.rename) if (draft.has(name)) draft.rename(name, quirks.rename[name]!)
  const requestsUsageForBudget = call.stream && requestUsage(draft, quirks)
  for (const key in call.body) if (!USUAL.has(key) && draft.has(key)) withhold(draft, kind, key)
  return requestsUsageForBudget
}

/**
 * Keeps back vendor fields that would override what the gateway has decided or checked, unless the operator allows
 * them (`options.forward`).
 */
const withhold = (draft: RequestDraft, kind: string, name: string): void => {
  const why = whyWithheld(kind, name)
  if (why !== null) {
    if (!arrayOf(draft.target.options.forward).includes(name)) draft.drop(name, `: ${why}`)
    return
  }
  const value = draft.valueOf(name)
  if (value === null || typeof value !== 'object') return
  const text = draft.textOf(name)!
  const isLeftOf = isObject(value) && withholdsInside(kind)
  const left = isLeftOf ? textWithoutWithheld(kind, text, value, name, (note) => draft.shaping.push(note)) : text
  // The upstream reads what was read and counted here.
  const withoutDuplicates = withoutRepeats(left)
  if (withoutDuplicates !== left) draft.shaping.push(`made repeated keys of ${name.slice(0, 40)} one`)
  if (withoutDuplicates !== text) draft.set(name, withoutDuplicates, null)
}

interface Head {
  readonly target: Target
  readonly quirks: RequestQuirks
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}
/**
 * The last heads of each provider, by its options, for whole answers and for streams: the same objects each time, so
 * that the dialer reuses what it derives from them.
 */
const heads = new WeakMap<Target['options'], { whole: Head | null; stream: Head | null }>()

const headFor = (target: Target, stream: boolean, quirks: RequestQuirks): Head => {
  let both = heads.get(target.options)
  if (both === undefined) {
    both = { whole: null, stream: null }
    heads.set(target.options, both)
  }
  const last = stream ? both.stream : both.whole
  if (
    last !== null &&
    last.quirks === quirks &&
    last.target.baseUrl === target.baseUrl &&
    last.target.secret === target.secret &&
    (quirks.url === undefined || last.target.upstreamModel === target.upstreamModel) &&
    last.target.region === target.region
  )
    return last
  const head = {
    target,
    quirks,
    url: quirks.url?.(target) ?? joinUrl(target.baseUrl, '/chat/completions'),
    headers: {
      'content-type': 'application/json',
      accept: stream ? 'text/event-stream' : 'application/json',
      ...(quirks.authorization?.(target) ?? bearer(target.secret)),
      ...quirks.headers?.(target),
    },
  }
  if (stream) both.stream = head
  else both.whole = head
  return head
}

/** Throws GatewayError('invalid_request') naming the field for what this upstream cannot do. */
export const openaiRequest = (call: ChatCall, target: Target, quirks: RequestQuirks, kind: string): UpstreamRequest => {
  const draft = new RequestDraft(call, target)
  const requestsUsageForBudget = shape(draft, quirks, kind)
  const { url, headers } = headFor(target, call.stream, quirks)
  return { method: 'POST', url, headers, body: draft.text(), shaping: draft.shaping, requestsUsageForBudget }
}
