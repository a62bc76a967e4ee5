// Google's generateContent. Its JSON refuses fields that it does not know.
import { t, Value } from '../../../src/lib/schema/schema.ts'
import {
  type Asked,
  alternate,
  imageName,
  imageOfUrl,
  isObject,
  type Json,
  matchResults,
  need,
  pieces,
  type Received,
  type Reply,
  type Turn,
} from './conversation.ts'
import { recordedAnswer, recordedStream } from './fixtures.ts'
import { GEMINI_RULES } from './other-rules.ts'
import { checkRules } from './rule.ts'
import { blocksOf, jsonSpoken, nextNumber, type Speaker, type Spoken, spoken, type Wire } from './wire.ts'

const closed = { additionalProperties: false }
const Part = t.Object(
  {
    text: t.Optional(t.String()),
    thought: t.Optional(t.Boolean()),
    thoughtSignature: t.Optional(t.String()),
    inlineData: t.Optional(t.Object({ mimeType: t.String(), data: t.String() }, closed)),
    fileData: t.Optional(t.Object({ mimeType: t.Optional(t.String()), fileUri: t.String() }, closed)),
    functionCall: t.Optional(
      t.Object({ id: t.Optional(t.String()), name: t.String(), args: t.Optional(t.Object({})) }, closed),
    ),
    functionResponse: t.Optional(
      t.Object(
        { id: t.Optional(t.String()), name: t.String(), response: t.Object({}), parts: t.Optional(t.Array(t.Any())) },
        closed,
      ),
    ),
  },
  closed,
)
const Generation = t.Object(
  {
    temperature: t.Optional(t.Number({ minimum: 0, maximum: 2 })),
    topP: t.Optional(t.Number()),
    topK: t.Optional(t.Integer({ minimum: 1 })),
    candidateCount: t.Optional(t.Integer({ minimum: 1, maximum: 8 })),
    maxOutputTokens: t.Optional(t.Integer({ minimum: 1 })),
    stopSequences: t.Optional(t.Array(t.String(), { maxItems: 5 })),
    frequencyPenalty: t.Optional(t.Number()),
    presencePenalty: t.Optional(t.Number()),
    seed: t.Optional(t.Integer()),
    responseLogprobs: t.Optional(t.Boolean()),
    logprobs: t.Optional(t.Integer()),
    responseMimeType: t.Optional(t.String()),
    responseSchema: t.Optional(t.Object({})),
    responseJsonSchema: t.Optional(t.Object({})),
    responseModalities: t.Optional(t.Array(t.String())),
    thinkingConfig: t.Optional(t.Object({})),
  },
  closed,
)
const Body = t.Object(
  {
    contents: t.Array(
      t.Object(
        { role: t.Union([t.Literal('user'), t.Literal('model')]), parts: t.Array(Part, { minItems: 1 }) },
        closed,
      ),
      { minItems: 1 },
    ),
    systemInstruction: t.Optional(
      t.Object({ role: t.Optional(t.String()), parts: t.Array(Part, { minItems: 1 }) }, closed),
    ),
    generationConfig: t.Optional(Generation),
    safetySettings: t.Optional(t.Array(t.Any())),
    cachedContent: t.Optional(t.String()),
    serviceTier: t.Optional(t.String()),
    tools: t.Optional(
      t.Array(
        t.Object(
          {
            functionDeclarations: t.Optional(
              t.Array(
                t.Object(
                  {
                    name: t.String({ pattern: '^[a-zA-Z_][\\w.:-]{0,63}$' }),
                    description: t.Optional(t.String()),
                    parameters: t.Optional(t.Object({})),
                    parametersJsonSchema: t.Optional(t.Object({})),
                  },
                  closed,
                ),
                { minItems: 1 },
              ),
            ),
          },
          closed,
        ),
      ),
    ),
    toolConfig: t.Optional(
      t.Object(
        {
          functionCallingConfig: t.Object(
            {
              mode: t.Union(['AUTO', 'NONE', 'ANY', 'VALIDATED'].map((mode) => t.Literal(mode))),
              allowedFunctionNames: t.Optional(t.Array(t.String(), { minItems: 1 })),
            },
            closed,
          ),
        },
        closed,
      ),
    ),
  },
  closed,
)

type Parts = readonly Json[]
const of = (parts: Parts, name: string): Json[] => parts.flatMap((part) => (isObject(part[name]) ? [part[name]] : []))
const textOf = (parts: Parts): string => parts.map(({ text }) => text ?? '').join('')

/** Calls and results are matched by id; where neither has one, by name and place. */
const turnOf = ({ role, parts }: { role: string; parts: Parts }): Turn => {
  for (const part of parts) {
    const kinds = ['text', 'inlineData', 'fileData', 'functionCall', 'functionResponse'].filter(
      (name) => part[name] !== undefined,
    )
    need(kinds.length === 1, `a part must hold one thing, not ${kinds.length}`)
    need(part.text !== '' || part.thoughtSignature !== undefined, 'a text must not be empty')
  }
  const id = (call: Json, i: number) => (call.id ?? `${String(call.name)}#${i}`) as string
  const images = [
    ...of(parts, 'inlineData').map(({ mimeType, data }) => imageName(mimeType as string, data as string)),
    ...of(parts, 'fileData').map(({ fileUri }) => imageOfUrl(fileUri)),
  ]
  return {
    role: role === 'model' ? 'assistant' : 'user',
    text: textOf(parts),
    images,
    calls: of(parts, 'functionCall').map((call, i) => ({
      id: id(call, i),
      name: call.name as string,
      args: (call.args ?? {}) as Json,
    })),
    results: of(parts, 'functionResponse').map((result, i) => ({
      id: id(result, i),
      text: Object.values(result.response as Json)
        .map((value) => (typeof value === 'string' ? value : JSON.stringify(value)))
        .join(' '),
    })),
  }
}

/** Results are a content of their own, which a content of the user may follow. */
const alternateButResults = (turns: readonly Turn[]): void =>
  alternate(turns.filter((_turn, i) => (turns[i - 1]?.results.length ?? 0) === 0 || turns[i]!.role !== 'user'))

/** Gemini 3 refuses a turn of calls whose first has no signature. */
const checkSignatures = (contents: readonly { role: string; parts: Parts }[], model: string): void => {
  if (!/gemini-3/.test(model)) return
  contents.forEach(({ role, parts }, i) => {
    const first = parts.find(({ functionCall }) => functionCall !== undefined)
    need(
      role !== 'model' || first === undefined || first.thoughtSignature !== undefined,
      `contents[${i}]: Function call is missing a thought_signature`,
    )
  })
}

const read = ({ path, query, headers, body }: Received, speaker: Speaker): Asked => {
  const { model, secret } = speaker
  const [, named, method] = /^\/v1beta\/models\/([\w.-]+):(generateContent|streamGenerateContent)$/.exec(path) ?? []
  const stream = method === 'streamGenerateContent'
  need(named !== undefined, `there is nothing at ${path}`, 404)
  need(named === model, `models/${named} is not found`, 404)
  need(query.toString() === (stream ? 'alt=sse' : ''), `unexpected query ${query}`)
  need(headers.get('x-goog-api-key') === secret && !headers.has('authorization'), 'API key not valid.')
  const [flaw] = [...Value.Errors(Body, body)]
  need(flaw === undefined, `Invalid JSON payload received: ${flaw?.path}: ${flaw?.message}`)
  const checked = body as Json & { contents: { role: string; parts: Parts }[] }
  checkRules(GEMINI_RULES, checked, speaker)
  checkSignatures(checked.contents, model)
  const turns = checked.contents.map(turnOf)
  alternateButResults(turns)
  const tools = ((checked.tools ?? []) as { functionDeclarations?: Json[] }[]).flatMap(
    ({ functionDeclarations = [] }) =>
      functionDeclarations.map(({ name, parametersJsonSchema, parameters }) => ({
        name: name as string,
        parameters: parametersJsonSchema ?? parameters,
      })),
  )
  matchResults(turns, null)
  const config = isObject(checked.toolConfig) ? (checked.toolConfig.functionCallingConfig as Json) : {}
  const { mode = 'AUTO', allowedFunctionNames: allowed } = config as { mode?: string; allowedFunctionNames?: string[] }
  need(
    allowed === undefined || mode === 'ANY' || mode === 'VALIDATED',
    'allowedFunctionNames only with ANY or VALIDATED',
  )
  for (const name of allowed ?? [])
    need(
      tools.some((tool) => tool.name === name),
      `allowedFunctionNames: ${name} is not declared`,
    )
  const { responseMimeType, responseJsonSchema } = (checked.generationConfig ?? {}) as Json
  need(
    responseJsonSchema === undefined || responseMimeType === 'application/json',
    'a schema needs responseMimeType application/json',
  )
  const system = isObject(checked.systemInstruction) ? textOf(checked.systemInstruction.parts as Parts) : ''
  return {
    model,
    stream,
    usage: true,
    system,
    turns,
    tools,
    choice:
      mode === 'NONE' ? 'none' : mode === 'ANY' ? (allowed === undefined ? 'required' : { name: allowed[0]! }) : 'auto',
    single: false,
    format: isObject(responseJsonSchema) ? responseJsonSchema : responseMimeType === 'application/json' ? 'json' : null,
  }
}

/** Of parallel calls only the first is signed. The API gives its calls ids since Gemini 3. */
const partsOf = (reply: Reply, model: string): Json[] => {
  if ('text' in reply) return [{ text: reply.text }]
  const three = /gemini-3/.test(model)
  return reply.calls.map(({ name, args }, i) => ({
    functionCall: { ...(three ? { id: `fc-${nextNumber()}` } : {}), name, args },
    ...(three && i === 0 ? { thoughtSignature: 'c2lnbmVk' } : {}),
  }))
}

const answer = (reply: Reply, model: string): Spoken => {
  const recorded = JSON.parse(recordedAnswer('gemini')) as Json & { candidates: [Json] }
  const candidate = {
    ...recorded.candidates[0],
    content: { role: 'model', parts: partsOf(reply, model) },
    finishReason: 'STOP',
  }
  return jsonSpoken({ ...recorded, candidates: [candidate], modelVersion: model })
}

/** Every event is a small answer with the recorded envelope; calls arrive whole, the reason with the last event. */
const stream = (reply: Reply, model: string): Spoken => {
  const recorded = blocksOf(recordedStream('gemini', ['text'], 'sse')).flatMap(({ json }) =>
    isObject(json) ? [json] : [],
  )
  const [first, last] = [recorded[0]!, recorded.at(-1)!]
  const parts = 'text' in reply ? pieces(reply.text).map((text) => ({ text })) : partsOf(reply, model)
  const event = (envelope: Json, part: Json, more: Json = {}) =>
    `data: ${JSON.stringify({ ...envelope, modelVersion: model, candidates: [{ content: { parts: [part], role: 'model' }, index: 0, ...more }] })}\r\n\r\n`
  const text = [...parts.map((part) => event(first, part)), event(last, { text: '' }, { finishReason: 'STOP' })].join(
    '',
  )
  return spoken('text/event-stream', text)
}

const STATUS: Readonly<Record<number, string>> = { 400: 'INVALID_ARGUMENT', 404: 'NOT_FOUND' }

export const geminiWire = (speaker: Speaker): Wire => ({
  read: (received) => read(received, speaker),
  speak: (asked, reply) => (asked.stream ? stream(reply, speaker.model) : answer(reply, speaker.model)),
  refusal: (status, message) => ({
    body: JSON.stringify({ error: { code: status, message, status: STATUS[status] } }),
  }),
})
