// A chat call -> Converse. The model is part of the path; fields of some models only go into
// `additionalModelRequestFields`.

import { isObject } from '../../wire/json.ts'
import type { ChatCall, Target, UpstreamRequest } from '../port.ts'
import {
  ALWAYS_THINKS,
  ALWAYS_THINKS_NOTE,
  FORCED_WITHOUT_THINKING,
  LEAST_TOP_P_THINKING,
  NO_SAMPLING,
  ONE_SAMPLER,
  TEMPERATURE_WINS,
  thinkingFor,
  UNSIGNED_WITHOUT_THINKING,
} from '../shared/claude-models.ts'
import {
  CONVERTED,
  dropDetail,
  exactBody,
  noteLimits,
  OPENAI_ONLY,
  outputLimit,
  present,
  refuseUnsupported,
} from '../shared/converting.ts'
import { arrayOf, type Json, objectOf, textOf } from '../shared/read-json.ts'
import { type Note, noteReplaced, stopsOf, vendorFields, vendorMembers } from '../shared/vendor-fields.ts'
import { type Block, type Conversation, convertMessages, isUnsigned } from './messages.ts'
import { cachesPrompts, type Family, familyOf, novaReasons } from './models.ts'
import { authorized, modelUrl } from './target.ts'
import { addFormat, addTools } from './tools.ts'

// biome-ignore format: one list
const NO_COUNTERPART = [
  ...OPENAI_ONLY, 'frequency_penalty', 'logprobs', 'metadata', 'min_p', 'presence_penalty', 'repetition_penalty',
  'seed', 'top_logprobs', 'user',
]
/** Containers in which the client may send Converse's own fields. */
const CONTAINERS = ['inferenceConfig', 'outputConfig', 'additionalModelRequestFields']

const HANDLED = new Set([
  ...NO_COUNTERPART,
  ...CONVERTED,
  'function_call',
  'functions',
  'parallel_tool_calls',
  'top_k',
  ...CONTAINERS,
])

/** Claude's own field is read at the top level too. */
const HANDLED_FOR_CLAUDE = new Set([...HANDLED, 'thinking'])

/** A body under construction. */
export interface Draft {
  readonly body: Json
  readonly target: Target
  readonly family: Family
  readonly conversation: Conversation
  readonly shaping: string[]
  readonly note: Note
  inferenceConfig: Record<string, unknown>
  readonly toolConfig: Record<string, unknown>
  readonly outputConfig: Record<string, unknown>
  /** `additionalModelRequestFields`, in the model's own fields. */
  readonly additional: Record<string, unknown>
  thinks: boolean
}

const draftOf = (body: Json, target: Target): Draft => {
  const family = familyOf(target)
  const shaping: string[] = []
  const note: Note = (text) => shaping.push(text)
  return {
    body,
    target,
    family,
    conversation: convertMessages(body.messages, family, note),
    shaping,
    note,
    inferenceConfig: {},
    toolConfig: {},
    outputConfig: {},
    additional: {},
    thinks: false,
  }
}

const addDropped = ({ body, shaping }: Draft): void => {
  for (const name of NO_COUNTERPART) if (present(body[name])) shaping.push(`dropped ${name}`)
  if (arrayOf(body.messages).some((message) => present(objectOf(message).name))) shaping.push('dropped messages[].name')
  dropDetail(body, shaping)
}

const addSampling = ({ body, target, family, shaping, note, inferenceConfig, additional }: Draft): void => {
  const limit = outputLimit(body)
  noteLimits(body, note)
  if (limit !== undefined) {
    noteReplaced(objectOf(body.inferenceConfig), 'maxTokens', 'inferenceConfig', 'max_tokens', note)
    inferenceConfig.maxTokens = limit
  }
  const refused = family === 'claude' && NO_SAMPLING.test(target.upstreamModel)
  for (const name of ['temperature', 'top_p', 'top_k']) {
    const value = body[name]
    if (!present(value)) continue
    if (refused) shaping.push(`dropped ${name}: the model refuses it`)
    else if (name === 'top_k' && family !== 'claude') shaping.push('dropped top_k: the model has no counterpart')
    else if (name === 'top_k') additional.top_k = value
    else if (name === 'top_p') inferenceConfig.topP = value
    else if (typeof value === 'number' && value > 1) {
      inferenceConfig.temperature = 1
      shaping.push('clamped temperature to 1')
    } else inferenceConfig.temperature = value
  }
}

/** Why Claude does not think in this request, where it must not; null where it may. */
const whyNotThinking = ({ conversation, body }: Draft): string | null => {
  if (isUnsigned(conversation)) return 'the assistant message before it has no signed thought'
  return forcesTool(body) ? 'a tool is forced' : null
}

/**
 * Leaves out what Claude refuses, whichever field has it: thinking where it must not think, sampling while it thinks,
 * two samplers.
 */
const settleClaude = (draft: Draft): void => {
  const { target, body, note, inferenceConfig, additional } = draft
  const { type } = objectOf(additional.thinking)
  draft.thinks = type !== undefined && type !== 'disabled'
  const why = draft.thinks ? whyNotThinking(draft) : null
  if (why !== null) {
    delete additional.thinking
    draft.thinks = false
    note(`dropped thinking: ${why}`)
  }
  const drop = (from: Record<string, unknown>, name: string, text: string): void => {
    if (from[name] === undefined) return
    delete from[name]
    note(text)
  }
  if (draft.thinks) {
    const field = textOf(body.reasoning_effort) === null ? 'thinking' : 'reasoning_effort'
    drop(inferenceConfig, 'temperature', `dropped temperature: not with ${field}`)
    const { topP } = inferenceConfig
    if (typeof topP !== 'number' || topP < LEAST_TOP_P_THINKING)
      drop(inferenceConfig, 'topP', `dropped top_p: not with ${field}`)
    for (const name of ['temperature', 'top_k']) drop(additional, name, `dropped ${name}: not with ${field}`)
  }
  if (inferenceConfig.temperature !== undefined && ONE_SAMPLER.test(target.upstreamModel))
    drop(inferenceConfig, 'topP', TEMPERATURE_WINS)
}

const addStop = ({ body, family, note, inferenceConfig }: Draft): void => {
  const own = objectOf(body.inferenceConfig).stopSequences
  const stop = stopsOf(body.stop, own, 'stopSequences', note, family !== 'claude')
  if (stop !== null) inferenceConfig.stopSequences = stop
}

/** The client forces a tool, this one or any. */
const forcesTool = ({ tools, tool_choice: choice }: Json): boolean =>
  arrayOf(tools).length > 0 && (choice === 'required' || objectOf(choice).type === 'function')

const addClaudeThinking = (draft: Draft, effort: string): void => {
  const { target, shaping, inferenceConfig, additional } = draft
  if (effort === 'none') {
    if (ALWAYS_THINKS.test(target.upstreamModel)) shaping.push(ALWAYS_THINKS_NOTE)
    else additional.thinking = { type: 'disabled' }
    return
  }
  const maxTokens = inferenceConfig.maxTokens ?? objectOf(draft.body.inferenceConfig).maxTokens
  const ceiling = typeof maxTokens === 'number' ? maxTokens : (target.maxOutputTokens ?? Number.POSITIVE_INFINITY)
  const thinking = thinkingFor(target.upstreamModel, effort, ceiling)
  if (thinking === null) {
    shaping.push('dropped reasoning_effort: max_tokens leaves no room for thinking')
    return
  }
  if ('effort' in thinking) additional.output_config = { effort: thinking.effort }
  if (forcesTool(draft.body)) {
    shaping.push(FORCED_WITHOUT_THINKING)
    return
  }
  if (isUnsigned(draft.conversation)) {
    shaping.push(UNSIGNED_WITHOUT_THINKING)
    return
  }
  draft.thinks = true
  additional.thinking =
    'effort' in thinking ? { type: 'adaptive' } : { type: 'enabled', budget_tokens: thinking.budgetTokens }
}

const NOVA_EFFORTS: Readonly<Record<string, string>> = { minimal: 'low', xhigh: 'high', max: 'high' }

const addThinking = (draft: Draft): void => {
  const { body, target, family, shaping, additional } = draft
  const effort = textOf(body.reasoning_effort)
  if (effort === null) return
  if (family === 'claude') addClaudeThinking(draft, effort)
  else if (family === 'openai') additional.reasoning_effort = effort
  else if (family === 'nova' && novaReasons(target))
    additional.reasoningConfig =
      effort === 'none' ? { type: 'disabled' } : { type: 'enabled', maxReasoningEffort: NOVA_EFFORTS[effort] ?? effort }
  else shaping.push('dropped reasoning_effort: the model has no counterpart')
}

/** Leaves markers of the prompt cache out where the model refuses them. */
const settleCache = ({ target, family, conversation, toolConfig, note }: Draft): void => {
  const where = cachesPrompts(target, family)
  if (where === 'everywhere') return
  const places = [arrayOf(toolConfig.tools) as Block[]]
  if (where === 'nowhere') places.push(conversation.system, ...conversation.messages.map(({ content }) => content))
  let dropped = false
  for (const blocks of places)
    for (let i = blocks.length - 1; i >= 0; i--)
      if (blocks[i]!.cachePoint !== undefined) {
        blocks.splice(i, 1)
        dropped = true
      }
  if (dropped) note(`dropped cache_control${where === 'nowhere' ? '' : ' of tools'}: the model refuses it`)
}

const setFilled = (out: Record<string, unknown>, name: string, members: Json): void => {
  if (Object.keys(members).length > 0) out[name] = members
}

/** The body, and the notes about dropped or renamed fields. */
export const converseBody = (body: Json, target: Target): { body: Json; shaping: readonly string[] } => {
  refuseUnsupported(body)
  const draft = draftOf(body, target)
  addDropped(draft)
  addSampling(draft)
  addStop(draft)
  addThinking(draft)
  const { note, conversation } = draft
  const [inference, output, additional] = CONTAINERS.map((name) => vendorMembers('bedrock', body[name], name, note))
  draft.inferenceConfig = { ...inference, ...draft.inferenceConfig }
  Object.assign(draft.additional, additional)
  const isClaude = draft.family === 'claude'
  if (isClaude && isObject(body.thinking) && draft.additional.thinking === undefined) {
    draft.additional.thinking = body.thinking
    note('moved thinking into additionalModelRequestFields')
  }
  if (isClaude) settleClaude(draft)
  addTools(draft)
  addFormat(draft)
  settleCache(draft)
  const out = vendorFields('bedrock', body, isClaude ? HANDLED_FOR_CLAUDE : HANDLED, note)
  const { system, messages } = conversation
  if (system.length > 0) out.system = system
  out.messages = messages
  setFilled(out, 'inferenceConfig', draft.inferenceConfig)
  setFilled(out, 'toolConfig', draft.toolConfig)
  setFilled(out, 'outputConfig', { ...output, ...draft.outputConfig })
  setFilled(out, 'additionalModelRequestFields', draft.additional)
  return { body: out, shaping: draft.shaping }
}

export const bedrockRequest = (call: ChatCall, target: Target): UpstreamRequest => {
  const { body, shaping } = converseBody(exactBody(call), target)
  return authorized(
    {
      method: 'POST',
      url: modelUrl(target, call.stream ? 'converse-stream' : 'converse'),
      headers: {
        'content-type': 'application/json',
        accept: call.stream ? 'application/vnd.amazon.eventstream' : 'application/json',
      },
      body: JSON.stringify(body),
      shaping,
    },
    target,
  )
}
