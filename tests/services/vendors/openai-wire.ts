// The OpenAI wire as its vendors speak it: `RULES` says where they differ. What they answer is made of the kind's recorded answer and stream.
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
  pieces,
  type Received,
  type Reply,
  type Tool,
  type Turn,
} from './conversation.ts'
import { recordedAnswer, recordedStream } from './fixtures.ts'
import { blocksOf, nextNumber, type Speaker, type Spoken, spoken, type Wire } from './wire.ts'

interface Rules {
  /** Before `/chat/completions`. */
  readonly base: string
  /** All that it takes; anything else is refused. Absent: it ignores what it does not know. */
  readonly known?: readonly string[]
  readonly refuses?: readonly string[]
  readonly limit?: 'max_tokens' | 'max_completion_tokens'
  /** The names that messages may have members of, where others are refused. */
  readonly messageFields?: readonly string[]
  readonly callId?: RegExp
  /** `any` instead of `required`. */
  readonly anyTool?: boolean
  readonly noMessageNames?: boolean
  readonly stopIsList?: boolean
  readonly alternates?: boolean
  /** How it streams calls. Absent: in fragments. */
  readonly calls?: 'whole' | 'without index'
  /** Its streams report usage whether or not they are asked. */
  readonly usageAlways?: boolean
  readonly noSchema?: boolean
  /** The schema stands in `value`. */
  readonly valueFormat?: boolean
}

const EXTENDED = ['top_k', 'min_p', 'repetition_penalty', 'repeat_penalty']
const GATEWAY_ONLY = ['prompt', 'system', 'tool_execution']
// biome-ignore format: one list
const OPENAI_FIELDS = [
  'messages', 'model', 'audio', 'frequency_penalty', 'function_call', 'functions', 'logit_bias', 'logprobs', 'max_completion_tokens',
  'max_tokens', 'metadata', 'modalities', 'moderation', 'n', 'parallel_tool_calls', 'prediction', 'presence_penalty', 'prompt_cache_key',
  'prompt_cache_options', 'prompt_cache_retention', 'reasoning_effort', 'response_format', 'safety_identifier', 'seed', 'service_tier',
  'stop', 'store', 'stream', 'stream_options', 'temperature', 'tool_choice', 'tools', 'top_logprobs', 'top_p', 'user', 'verbosity',
  'web_search_options',
]
// biome-ignore format: one list
const MISTRAL_FIELDS = [
  'model', 'messages', 'temperature', 'top_p', 'max_tokens', 'stream', 'stop', 'random_seed', 'metadata', 'response_format', 'tools', 'tool_choice',
  'presence_penalty', 'frequency_penalty', 'n', 'prediction', 'parallel_tool_calls', 'prompt_mode', 'reasoning_effort', 'safe_prompt',
]

const RULES: Readonly<Record<string, Rules>> = {
  openai: { base: '/v1', known: OPENAI_FIELDS },
  azure_openai: { base: '/openai/v1', known: OPENAI_FIELDS },
  mistral: {
    base: '/v1',
    known: MISTRAL_FIELDS,
    messageFields: ['role', 'content', 'tool_calls', 'prefix', 'tool_call_id', 'name'],
    callId: /^[A-Za-z0-9]{9}$/,
    anyTool: true,
    calls: 'whole',
    usageAlways: true,
  },
  openai_compatible: { base: '/v1', refuses: ['top_k'], calls: 'without index' },
  vllm: { base: '/v1' },
  llamacpp: { base: '/v1', refuses: ['repetition_penalty'], limit: 'max_tokens' },
  tgi: {
    base: '/v1',
    refuses: [...EXTENDED, 'parallel_tool_calls', 'reasoning_effort'],
    stopIsList: true,
    valueFormat: true,
  },
  lmstudio: { base: '/v1', refuses: ['repetition_penalty'], limit: 'max_tokens' },
  openrouter: { base: '/api/v1', usageAlways: true },
  groq: {
    base: '/openai/v1',
    refuses: [...EXTENDED, 'logprobs', 'top_logprobs', 'logit_bias'],
    noMessageNames: true,
  },
  together: { base: '/v1', refuses: ['parallel_tool_calls', 'max_completion_tokens'], limit: 'max_tokens' },
  fireworks: { base: '/inference/v1' },
  deepseek: { base: '/v1', refuses: [...EXTENDED, 'seed', 'parallel_tool_calls'], limit: 'max_tokens', noSchema: true },
  xai: { base: '/v1', refuses: [...EXTENDED, 'parallel_tool_calls'], limit: 'max_completion_tokens' },
  perplexity: {
    base: '',
    refuses: [...EXTENDED, 'seed', 'tools', 'tool_choice', 'parallel_tool_calls'],
    limit: 'max_tokens',
    alternates: true,
    usageAlways: true,
  },
  cerebras: { base: '/v1', refuses: EXTENDED, limit: 'max_completion_tokens' },
}

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
    !rules.stopIsList || body.stop === undefined || Array.isArray(body.stop),
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
    const blank = calls.length > 0 && (message.content === null || message.content === undefined)
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

/** Where none is recorded. */
const USAGE = { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 }

const ALNUM = 'ABCDEFGHJKLMNPQRSTUVWXYZ'
const madeCalls = (reply: Extract<Reply, { calls: unknown }>, { callId }: Rules): Json[] =>
  reply.calls.map(({ name, args }) => {
    const number = nextNumber()
    const id = callId === undefined ? `call_${number}` : `D${String(number).padStart(7, '0')}${ALNUM[number % 24]}`
    return { id, type: 'function', function: { name, arguments: JSON.stringify(args) } }
  })

/** The recorded answer with another message. What stands before its JSON stays. */
const whole = (kind: string, reply: Reply, rules: Rules): Spoken => {
  const text = recordedAnswer(kind)
  const answer = JSON.parse(text) as Json & { choices: [Json & { message: Json }] }
  const [choice] = answer.choices
  const { tool_calls: _, ...rest } = choice.message
  const said =
    'text' in reply
      ? { message: { ...rest, content: reply.text } }
      : { message: { ...rest, content: null, tool_calls: madeCalls(reply, rules) }, finish_reason: 'tool_calls' }
  const before = text.slice(0, text.indexOf('{'))
  const usage = isObject(answer.usage) && answer.usage.completion_tokens !== undefined ? answer.usage : USAGE
  return spoken('application/json', before + JSON.stringify({ ...answer, usage, choices: [{ ...choice, ...said }] }))
}

const STREAMS = ['text', 'usage', 'reasoning', 'cost', 'timings', 'filter', 'bare', 'tools']

interface Template {
  /** Blocks before the first content, as they came. */
  readonly head: readonly string[]
  /** The first frame with content, and its delta without it. */
  readonly frame: Json
  readonly delta: Json
  /** That of the frames behind it. */
  readonly later: Json
  /** The frame that ends the choice, without content. */
  readonly finish: Json
  /** Frames behind it. */
  readonly tail: readonly Json[]
}

const firstChoice = (json: unknown): Json | null => {
  const [choice] = isObject(json) && Array.isArray(json.choices) ? (json.choices as unknown[]) : []
  return isObject(choice) ? choice : null
}
const deltaOf = (choice: Json | null): Json => (choice !== null && isObject(choice.delta) ? choice.delta : {})
const hasContent = (choice: Json | null): boolean => {
  const { content, tool_calls: called } = deltaOf(choice)
  return (typeof content === 'string' && content !== '') || Array.isArray(called)
}
const withChoice = (frame: Json, change: Json): Json => ({ ...frame, choices: [{ ...firstChoice(frame), ...change }] })

const templateOf = (kind: string): Template => {
  const blocks = blocksOf(recordedStream(kind, STREAMS, 'sse'))
  const first = blocks.findIndex(({ json }) => hasContent(firstChoice(json)))
  const last = blocks.findIndex(({ json }) => typeof firstChoice(json)?.finish_reason === 'string')
  const frame = blocks[first]?.json
  const finish = blocks[last]?.json
  if (!isObject(frame) || !isObject(finish)) throw new Error(`the recorded stream of ${kind} has no content or no end`)
  const { content: _, tool_calls: _calls, ...delta } = deltaOf(firstChoice(frame))
  // Some repeat the role with every piece; which, their next frame tells.
  const { role, ...roleless } = delta
  const second = deltaOf(firstChoice(blocks[first + 1]?.json))
  const later = second.role === undefined ? roleless : { role, ...roleless }
  return {
    head: blocks.slice(0, first).map(({ text }) => text),
    frame: first === last ? withChoice({ ...frame, usage: undefined }, { finish_reason: null }) : frame,
    delta,
    later,
    finish,
    tail: blocks.slice(last + 1).flatMap(({ json }) => (isObject(json) ? [json] : [])),
  }
}

const callDeltas = (reply: Extract<Reply, { calls: unknown }>, rules: Rules): Json[] => {
  const calls = madeCalls(reply, rules)
  if (rules.calls === 'whole')
    return [{ content: '', tool_calls: calls.map((call, index) => ({ ...call, index, type: undefined })) }]
  if (rules.calls === 'without index') return calls.map((call) => ({ tool_calls: [call] }))
  return calls.flatMap((call, index) => {
    const { name, arguments: args } = call.function as { name: string; arguments: string }
    const fragments = pieces(args).map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] }))
    return [{ tool_calls: [{ index, id: call.id, type: 'function', function: { name, arguments: '' } }] }, ...fragments]
  })
}

const isUsageOnly = (frame: Json): boolean => Array.isArray(frame.choices) && frame.choices.length === 0

/** The recorded stream with other content. Usage comes as recorded; a frame for it alone only when it is asked for. */
const streamed = (kind: string, { usage }: Asked, reply: Reply, rules: Rules): Spoken => {
  const { head, frame, delta, later, finish, tail } = templateOf(kind)
  const deltas = 'text' in reply ? pieces(reply.text).map((content) => ({ content })) : callDeltas(reply, rules)
  const reason = 'text' in reply ? firstChoice(finish)!.finish_reason : 'tool_calls'
  let text = ''
  /** Some repeat with every piece what was said before it. */
  const soFar = (one: Json): Json => {
    text += typeof one.content === 'string' ? one.content : ''
    return isObject(firstChoice(frame)?.message) ? { message: { role: 'assistant', content: text } } : {}
  }
  const behind = tail.filter((one) => usage || !isUsageOnly(one))
  const counted = [finish, ...behind].some((one) => isObject(one.usage) || isObject(one.x_groq))
  const frames = [
    ...deltas.map((one, i) => withChoice(frame, { delta: { ...(i === 0 ? delta : later), ...one }, ...soFar(one) })),
    withChoice(finish, {
      ...soFar({}),
      delta: 'text' in reply && deltaOf(firstChoice(finish)).content !== undefined ? { content: '' } : {},
      finish_reason: typeof reason === 'string' && reason !== 'tool_calls' ? reason : 'text' in reply ? 'stop' : reason,
    }),
    ...behind,
    ...(usage && !counted ? [{ ...frame, choices: [], usage: USAGE }] : []),
  ]
  const blocks = [...head, ...frames.map((one) => `data: ${JSON.stringify(one)}`), 'data: [DONE]']
  return spoken('text/event-stream', `${blocks.join('\n\n')}\n\n`)
}

export const openaiWire = (speaker: Speaker): Wire => {
  const rules = RULES[speaker.kind] ?? (speaker.assumed ? { base: speaker.basePath } : undefined)
  if (rules === undefined) throw new Error(`there are no rules for ${speaker.kind}`)
  return {
    read: (received) => asked(received, speaker, rules),
    speak: (request, reply) =>
      request.stream ? streamed(speaker.kind, request, reply, rules) : whole(speaker.kind, reply, rules),
    refusal: (_status, message) => ({
      body: JSON.stringify({ error: { message, type: 'invalid_request_error', param: null, code: null } }),
    }),
  }
}
