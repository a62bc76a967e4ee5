// Amazon Bedrock's Converse and ConverseStream: signatures are checked, answers come in AWS's binary frames.
import { createHash, createHmac } from 'node:crypto'
import { t, Value } from '../../../src/lib/schema/schema.ts'
import { awsEvent } from '../../providers/bedrock/aws-event-frame.ts'
import {
  type Asked,
  alternate,
  imageName,
  isObject,
  type Json,
  matchResults,
  need,
  pieces,
  type Received,
  type Reply,
  type Turn,
} from './conversation.ts'
import { CONVERSE_RULES } from './converse-rules.ts'
import { recordedAnswer } from './fixtures.ts'
import { checkRules } from './rule.ts'
import { jsonSpoken, nextNumber, type Speaker, type Spoken, type Wire } from './wire.ts'

const closed = { additionalProperties: false }
const one = <Member extends Parameters<typeof t.Object>[0]>(members: Member) => t.Object(members, closed)
const Text = one({ text: t.String({ pattern: '\\S' }) })
const Cache = one({ cachePoint: t.Object({ type: t.Literal('default') }) })
const Image = one({
  image: one({
    format: t.Union(['png', 'jpeg', 'gif', 'webp'].map((format) => t.Literal(format))),
    source: one({ bytes: t.String({ minLength: 1 }) }),
  }),
})
const ToolUse = one({
  toolUse: one({
    toolUseId: t.String({ pattern: '^[a-zA-Z0-9_.:-]{1,64}$' }),
    name: t.String({ pattern: '^[a-zA-Z0-9_-]{1,64}$' }),
    input: t.Object({}),
  }),
})
const ToolResult = one({
  toolResult: one({
    toolUseId: t.String({ pattern: '^[a-zA-Z0-9_.:-]{1,64}$' }),
    content: t.Array(t.Union([Text, Image, one({ json: t.Object({}) })])),
    status: t.Optional(t.Union([t.Literal('success'), t.Literal('error')])),
  }),
})
const Reasoning = one({ reasoningContent: t.Object({}) })
const Empty = one({})
const Body = one({
  messages: t.Array(
    t.Union([
      one({ role: t.Literal('user'), content: t.Array(t.Union([Text, Image, ToolResult, Cache]), { minItems: 1 }) }),
      one({
        role: t.Literal('assistant'),
        content: t.Array(t.Union([Text, ToolUse, Reasoning, Cache]), { minItems: 1 }),
      }),
    ]),
    { minItems: 1 },
  ),
  system: t.Optional(t.Array(t.Union([Text, Cache]), { minItems: 1 })),
  inferenceConfig: t.Optional(
    one({
      maxTokens: t.Optional(t.Integer({ minimum: 1 })),
      temperature: t.Optional(t.Number({ minimum: 0, maximum: 1 })),
      topP: t.Optional(t.Number({ minimum: 0, maximum: 1 })),
      stopSequences: t.Optional(t.Array(t.String({ minLength: 1 }))),
    }),
  ),
  toolConfig: t.Optional(
    one({
      tools: t.Array(
        t.Union([
          one({
            toolSpec: one({
              name: t.String({ pattern: '^[a-zA-Z0-9_-]{1,64}$' }),
              description: t.Optional(t.String({ minLength: 1 })),
              inputSchema: one({ json: t.Object({ type: t.Literal('object') }) }),
              strict: t.Optional(t.Boolean()),
            }),
          }),
          Cache,
        ]),
        { minItems: 1 },
      ),
      toolChoice: t.Optional(
        t.Union([one({ auto: Empty }), one({ any: Empty }), one({ tool: one({ name: t.String() }) })]),
      ),
    }),
  ),
  outputConfig: t.Optional(
    one({
      textFormat: one({
        type: t.Literal('json_schema'),
        structure: one({
          jsonSchema: one({ schema: t.String(), name: t.Optional(t.String()), description: t.Optional(t.String()) }),
        }),
      }),
    }),
  ),
  additionalModelRequestFields: t.Optional(t.Object({})),
})

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()
/** Encodes what is encoded already once more, as AWS does for all services but S3. */
const encodedAgain = (segment: string) =>
  encodeURIComponent(segment).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)

/** The signature as AWS computes it, from what arrived and from the key that it knows. */
const checkSignature = ({ method, path, query, headers, text }: Received, secret: string, region: string): void => {
  const [accessKey, secretKey, token] = secret.split(':')
  const authorization = headers.get('authorization') ?? ''
  const [, credential, signedHeaders, signature] =
    /^AWS4-HMAC-SHA256 Credential=(\S+), SignedHeaders=(\S+), Signature=([0-9a-f]{64})$/.exec(authorization) ?? []
  need(credential !== undefined, 'Missing Authentication Token', 403)
  const stamp = headers.get('x-amz-date') ?? ''
  const scope = `${stamp.slice(0, 8)}/${region}/bedrock/aws4_request`
  need(credential === `${accessKey}/${scope}`, 'Credential should be scoped to a valid region and service', 403)
  need((headers.get('x-amz-security-token') ?? undefined) === token, 'the security token is missing', 403)
  const at = Date.parse(stamp.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))
  need(Math.abs(Date.now() - at) < 300_000, 'Signature expired', 403)
  const names = signedHeaders!.split(';')
  for (const name of ['host', 'x-amz-date']) need(names.includes(name), `${name} must be signed`, 403)
  const canonical = [
    method,
    path.split('/').map(encodedAgain).join('/'),
    [...query]
      .map(([name, value]) => `${encodedAgain(name)}=${encodedAgain(value)}`)
      .sort()
      .join('&'),
    ...names.map((name) => `${name}:${headers.get(name)}`),
    '',
    signedHeaders,
    sha256(text),
  ].join('\n')
  const key = hmac(hmac(hmac(hmac(`AWS4${secretKey}`, stamp.slice(0, 8)), region), 'bedrock'), 'aws4_request')
  const expected = hmac(key, `AWS4-HMAC-SHA256\n${stamp}\n${scope}\n${sha256(canonical)}`).toString('hex')
  need(signature === expected, 'The request signature we calculated does not match the signature you provided.', 403)
}

export const checkBedrockCredential = (received: Received, { secret, options }: Speaker): void => {
  if (secret!.includes(':')) checkSignature(received, secret!, options.region as string)
  else
    need(
      received.headers.get('authorization') === `Bearer ${secret}`,
      'Authentication failed: your API Key is not valid.',
      403,
    )
}

const of = (content: readonly Json[], name: string): Json[] =>
  content.flatMap((block) => (isObject(block[name]) ? [block[name]] : []))
const textOf = (content: readonly Json[]): string => content.map(({ text }) => text ?? '').join('')

const turnOf = ({ role, content }: { role: string; content: readonly Json[] }): Turn => ({
  role: role as Turn['role'],
  text: textOf(content),
  images: of(content, 'image').map(({ format, source }) =>
    imageName(`image/${String(format)}`, (source as Json).bytes as string),
  ),
  calls: of(content, 'toolUse').map(
    ({ toolUseId, name, input }) => ({ id: toolUseId, name, args: input }) as Turn['calls'][number],
  ),
  results: of(content, 'toolResult').map(({ toolUseId, content: said }) => ({
    id: toolUseId as string,
    text: textOf(said as Json[]),
  })),
})

const choiceOf = (config: Json, own: Json): { choice: Asked['choice']; single: boolean } => {
  const said = isObject(own.tool_choice) ? own.tool_choice : {}
  need(said.type === undefined || config.toolChoice === undefined, 'tool_choice is given twice')
  const { any, tool } = (config.toolChoice ?? {}) as { any?: unknown; tool?: { name: string } }
  const single = said.disable_parallel_tool_use === true
  const name = tool?.name ?? (said.type === 'tool' ? String(said.name) : undefined)
  if (name !== undefined) return { choice: { name }, single }
  if (any !== undefined || said.type === 'any') return { choice: 'required', single }
  return { choice: said.type === 'none' ? 'none' : 'auto', single }
}

const read = (received: Received, speaker: Speaker): Asked => {
  const { path, query, headers, body } = received
  const { model } = speaker
  const [, id, operation] = /^\/model\/([^/]+)\/(converse|converse-stream)$/.exec(path) ?? []
  need(id !== undefined && query.size === 0, `there is nothing at ${path}`, 404)
  need(!id.includes(':'), 'the model id must be encoded', 404)
  checkBedrockCredential(received, speaker)
  need(decodeURIComponent(id) === model, 'The provided model identifier is invalid.')
  need(headers.get('content-type') === 'application/json', 'the body must be JSON')
  const [flaw] = [...Value.Errors(Body, body)]
  need(flaw === undefined, `Malformed input request: ${flaw?.path}: ${flaw?.message}`)
  const checked = body as Json & { messages: { role: string; content: readonly Json[] }[] }
  checkRules(CONVERSE_RULES, checked, speaker)
  const turns = checked.messages.map(turnOf)
  alternate(turns)
  const config = (checked.toolConfig ?? {}) as Json
  const own = (checked.additionalModelRequestFields ?? {}) as Json
  const tools = of((config.tools ?? []) as Json[], 'toolSpec').map(({ name, inputSchema }) => ({
    name: name as string,
    parameters: (inputSchema as Json).json,
  }))
  const usesTools = turns.some(({ calls, results }) => calls.length + results.length > 0)
  need(
    !usesTools || tools.length > 0,
    'The toolConfig field must be defined when using toolUse and toolResult content blocks.',
  )
  matchResults(turns, null)
  const format = isObject(checked.outputConfig) ? JSON.stringify(checked.outputConfig) : null
  need(
    format === null || /claude-\w+-4-[56]|openai\./.test(model),
    'outputConfig.textFormat: not supported by this model',
  )
  return {
    model,
    stream: operation === 'converse-stream',
    usage: true,
    system: textOf((checked.system ?? []) as Json[]),
    turns,
    tools,
    ...choiceOf(config, own),
    format: format === null ? null : schemaOf(checked.outputConfig as Json),
  }
}

const schemaOf = ({ textFormat }: Json): Json => {
  const { structure } = textFormat as { structure: { jsonSchema: { schema: string } } }
  return JSON.parse(structure.jsonSchema.schema) as Json
}

const callsOf = (reply: Extract<Reply, { calls: unknown }>): { toolUseId: string; name: string; input: Json }[] =>
  reply.calls.map(({ name, args }) => ({ toolUseId: `tooluse_${nextNumber()}`, name, input: args }))

const recorded = (): Json => JSON.parse(recordedAnswer('bedrock')) as Json

const answer = (reply: Reply): Spoken => {
  const content = 'text' in reply ? [{ text: reply.text }] : callsOf(reply).map((toolUse) => ({ toolUse }))
  const stopReason = 'text' in reply ? 'end_turn' : 'tool_use'
  return jsonSpoken({ ...recorded(), output: { message: { role: 'assistant', content } }, stopReason })
}

/** As Bedrock sends it: padding everywhere, a start for tools alone. */
const stream = (reply: Reply): Spoken => {
  const event = (type: string, payload: Json) => awsEvent(type, { ...payload, p: 'abcdefghijkl' })
  const delta = (contentBlockIndex: number, of: Json) => event('contentBlockDelta', { contentBlockIndex, delta: of })
  const stop = (contentBlockIndex: number) => event('contentBlockStop', { contentBlockIndex })
  const blocks =
    'text' in reply
      ? [...pieces(reply.text).map((text) => delta(0, { text })), stop(0)]
      : callsOf(reply).flatMap(({ toolUseId, name, input }, contentBlockIndex) => [
          event('contentBlockStart', { contentBlockIndex, start: { toolUse: { name, toolUseId } } }),
          ...pieces(JSON.stringify(input)).map((piece) => delta(contentBlockIndex, { toolUse: { input: piece } })),
          stop(contentBlockIndex),
        ])
  const { usage, metrics } = recorded()
  const bytes = Buffer.concat([
    event('messageStart', { role: 'assistant' }),
    ...blocks,
    event('messageStop', { stopReason: 'text' in reply ? 'end_turn' : 'tool_use' }),
    event('metadata', { usage, metrics }),
  ])
  return { type: 'application/vnd.amazon.eventstream', bytes }
}

export const bedrockWire = (speaker: Speaker): Wire => ({
  read: (received) => read(received, speaker),
  speak: (asked, reply) => (asked.stream ? stream(reply) : answer(reply)),
  refusal: (status, message) => ({
    body: JSON.stringify({ message }),
    headers: {
      'x-amzn-errortype':
        status === 403 ? 'AccessDeniedException' : status === 404 ? 'UnknownOperationException' : 'ValidationException',
    },
  }),
})
