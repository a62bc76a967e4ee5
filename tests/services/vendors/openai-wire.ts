// The OpenAI wire as its vendors speak it: what each of them accepts in a request. `openai-rules.ts` lists the
// differences.
import {
  type Asked,
  alternate,
  type Call,
  imageOfUrl,
  isObject,
  type Json,
  matchResults,
  need,
  objectText,
  type Received,
  type Tool,
  type Turn,
} from './conversation.ts'
import { streamed, whole } from './openai-answers.ts'
import { OPENAI_FIELDS, type Rules, rulesOf } from './openai-rules.ts'
import { OPENAI_SHAPE_RULES } from './openai-shape-rules.ts'
import { checkRules } from './rule.ts'
import type { Speaker, Wire } from './wire.ts'

const GATEWAY_ONLY = ['prompt', 'system', 'tool_execution']

const checkAddress = ({ path, query, headers, body }: Received, speaker: Speaker, rules: Rules): void => {
  const { kind, secret, options } = speaker
  const chat = '/chat/completions'
  if (kind === 'azure_openai' && typeof options.api_version === 'string') {
    need(path === `/openai/deployments/${speaker.model}${chat}`, `there is nothing at ${path}`, 404)
    need(query.get('api-version') === options.api_version, 'the api-version is missing', 404)
  } else {
    need(path === rules.base + chat && query.size === 0, `there is nothing at ${path}`, 404)
    need(body?.model === speaker.model, `the model ${String(body?.model)} does not exist`, 404)
  }
  const given = headers.get(kind === 'azure_openai' ? 'api-key' : 'authorization')
  const wanted = secret === null ? null : kind === 'azure_openai' ? secret : `Bearer ${secret}`
  need(given === wanted, 'Incorrect API key provided', 401)
}

const checkFields = (body: Json, { model }: Speaker, rules: Rules): void => {
  for (const name of Object.keys(body)) {
    const known = rules.known?.includes(name) ?? true
    need(
      known && !rules.refuses?.includes(name) && !GATEWAY_ONLY.includes(name),
      `Unrecognized request argument: ${name}`,
    )
  }
  const other = rules.limit === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens'
  const reasons = rules.known === OPENAI_FIELDS && /^(?:o\d|gpt-5)/.test(model)
  need(rules.limit === undefined || body[other] === undefined, `${other} is not taken, ${rules.limit} is`)
  need(
    !reasons || body.max_tokens === undefined,
    "Unsupported parameter: 'max_tokens' is not supported with this model.",
  )
  need(body.max_tokens === undefined || body.max_completion_tokens === undefined, 'two limits of tokens')
  need(
    !rules.stopIsList || body.stop === undefined || body.stop === null || Array.isArray(body.stop),
    'stop: invalid type, expected a sequence',
  )
  need(body.stream === undefined || typeof body.stream === 'boolean', 'stream must be a boolean')
  need(body.stream_options === undefined || body.stream === true, 'stream_options only with stream')
  need(isObject(body.response_format) || body.response_format === undefined, 'response_format must be an object')
}

const contentOf = (content: unknown, at: string): { text: string; images: string[] } => {
  if (typeof content === 'string') return { text: content, images: [] }
  need(Array.isArray(content) && content.length > 0, `${at}: content must be a string or parts`)
  let text = ''
  const images: string[] = []
  for (const part of content as unknown[]) {
    need(isObject(part), `${at}: a part must be an object`)
    if (part.type === 'text') {
      need(typeof part.text === 'string', `${at}: text must be a string`)
      text += part.text
    } else {
      need(part.type === 'image_url', `${at}: unknown part ${String(part.type)}`)
      images.push(imageOfUrl(isObject(part.image_url) ? part.image_url.url : part.image_url))
    }
  }
  return { text, images }
}

const callOf = (call: unknown, at: string, { callId }: Rules): Call => {
  need(isObject(call) && call.type === 'function' && isObject(call.function), `${at}: not a call of a function`)
  const { id } = call
  need(typeof id === 'string' && id !== '', `${at}: a call needs an id`)
  need(
    callId === undefined || callId.test(id),
    `${at}: Tool call id was ${id} but must be a-z, A-Z, 0-9, with a length of 9.`,
  )
  const { name, arguments: args } = call.function
  need(typeof name === 'string', `${at}: a call needs a name`)
  return { id, name, args: objectText(args, `${at}: arguments`) }
}

const conversationOf = (body: Json, rules: Rules): { system: string; turns: Turn[] } => {
  need(Array.isArray(body.messages) && body.messages.length > 0, 'messages must not be empty')
  const system: string[] = []
  const turns: Turn[] = []
  let results: { id: string; text: string }[] | null = null
  ;(body.messages as unknown[]).forEach((message, i) => {
    const at = `messages.${i}`
    need(isObject(message), `${at}: must be an object`)
    for (const name of Object.keys(message))
      need(rules.messageFields?.includes(name) ?? true, `${at}.${name}: Extra inputs are not permitted`, 422)
    need(!rules.noMessageNames || message.name === undefined, `${at}: property 'name' is unsupported`)
    const { role } = message
    if (role === 'tool') {
      const { text } = contentOf(message.content, at)
      need(typeof message.tool_call_id === 'string', `${at}: tool_call_id is missing`)
      if (results === null) {
        results = []
        turns.push({ role: 'user', text: '', images: [], calls: [], results })
      }
      results.push({ id: message.tool_call_id, text })
      return
    }
    results = null
    if (role === 'system' || role === 'developer') {
      need(role === 'system' || rules.known === OPENAI_FIELDS, `${at}: unknown role developer`)
      system.push(contentOf(message.content, at).text)
      return
    }
    need(role === 'user' || role === 'assistant', `${at}: unknown role ${String(role)}`)
    const calls = (Array.isArray(message.tool_calls) ? message.tool_calls : []).map((call, n) =>
      callOf(call, `${at}.tool_calls.${n}`, rules),
    )
    need(role === 'assistant' || calls.length === 0, `${at}: only the assistant calls tools`)
    const refuses = rules.known === OPENAI_FIELDS && typeof message.refusal === 'string'
    const blank = (calls.length > 0 || refuses) && (message.content === null || message.content === undefined)
    turns.push({ role, calls, results: [], ...(blank ? { text: '', images: [] } : contentOf(message.content, at)) })
  })
  return { system: system.join('\n'), turns }
}

const toolsOf = (body: Json): Tool[] => {
  if (body.tools === undefined) return []
  need(Array.isArray(body.tools) && body.tools.length > 0, 'tools must not be empty')
  return (body.tools as unknown[]).map((tool, i) => {
    need(isObject(tool) && tool.type === 'function' && isObject(tool.function), `tools.${i}: not a function`)
    const { name, parameters } = tool.function
    need(typeof name === 'string' && /^[\w-]{1,64}$/.test(name), `tools.${i}: bad name`)
    need(
      parameters === undefined || (isObject(parameters) && parameters.type === 'object'),
      `tools.${i}: bad parameters`,
    )
    return { name, parameters }
  })
}

const choiceOf = (body: Json, { anyTool }: Rules): Asked['choice'] => {
  const { tool_choice: choice } = body
  if (choice === undefined || choice === 'auto') return 'auto'
  need(body.tools !== undefined, 'tool_choice is only allowed when tools are specified')
  if (choice === 'none') return 'none'
  if (choice === (anyTool ? 'any' : 'required')) return 'required'
  need(isObject(choice) && choice.type === 'function' && isObject(choice.function), `bad tool_choice ${String(choice)}`)
  return { name: String(choice.function.name) }
}

const formatOf = (body: Json, { noSchema, valueFormat }: Rules): Asked['format'] => {
  const format = body.response_format
  if (!isObject(format) || format.type === 'text') return null
  if (format.type === 'json_object') return 'json'
  if (valueFormat && format.type === 'json' && isObject(format.value))
    return isObject(format.value.properties) ? format.value : 'json'
  need(
    format.type === 'json_schema' && noSchema !== true && !valueFormat,
    'This response_format type is unavailable now',
  )
  need(isObject(format.json_schema) && isObject(format.json_schema.schema), 'json_schema needs a schema')
  need(typeof format.json_schema.name === 'string', "Missing required parameter: 'response_format.json_schema.name'")
  return format.json_schema.schema
}

const asked = (received: Received, speaker: Speaker, rules: Rules): Asked => {
  const { body } = received
  need(body !== null && received.headers.get('content-type') === 'application/json', 'the body must be JSON')
  checkAddress(received, speaker, rules)
  checkFields(body, speaker, rules)
  checkRules(OPENAI_SHAPE_RULES, body, speaker)
  const { system, turns } = conversationOf(body, rules)
  const tools = toolsOf(body)
  matchResults(turns, null)
  if (rules.alternates) alternate(turns)
  const options = isObject(body.stream_options) ? body.stream_options : {}
  const single = body.parallel_tool_calls ?? body.parallel_function_calling
  return {
    model: speaker.model,
    stream: body.stream === true,
    usage: options.include_usage === true || rules.usageAlways === true,
    system,
    turns,
    tools,
    choice: choiceOf(body, rules),
    single: single === false,
    format: formatOf(body, rules),
  }
}

export const openaiWire = (speaker: Speaker): Wire => {
  const rules = rulesOf(speaker)
  return {
    read: (received) => asked(received, speaker, rules),
    speak: (request, reply) =>
      request.stream ? streamed(speaker.kind, request, reply, rules) : whole(speaker.kind, reply, rules),
    refusal: (_status, message) => ({
      body: JSON.stringify({ error: { message, type: 'invalid_request_error', param: null, code: null } }),
    }),
  }
}
