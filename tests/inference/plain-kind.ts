// The smallest provider kind of the OpenAI wire format, for tests of the data plane: these tests do not depend on real
// kinds.
import { editMembers } from '../../src/lib/json/edit.ts'
import type { ProviderKind, StreamPart, Usage } from '../../src/providers/port.ts'
import { type ErrorCode, GatewayError } from '../../src/wire/errors.ts'

interface PlainChoice {
  message?: { content?: string | null; refusal?: string | null; tool_calls?: { function: { name: string } }[] }
  delta?: { content?: string; refusal?: string; tool_calls?: { function: { name?: string } }[] }
  finish_reason?: string | null
}
interface PlainAnswer {
  choices?: PlainChoice[]
  usage?: { prompt_tokens: number; completion_tokens: number } | null
  error?: { message: string }
}

const usageOf = (usage: PlainAnswer['usage']): Usage | null =>
  usage == null
    ? null
    : {
        promptTokens: usage.prompt_tokens,
        completionTokens: usage.completion_tokens,
        cachedPromptTokens: null,
        reasoningTokens: null,
        raw: usage,
      }

const CODES: Record<number, ErrorCode> = {
  400: 'invalid_request',
  401: 'authentication_error',
  402: 'quota_exceeded',
  404: 'not_found',
  413: 'context_length_exceeded',
  429: 'rate_limited',
}

const parsed = (text: string): PlainAnswer => {
  try {
    return JSON.parse(text) as PlainAnswer
  } catch (cause) {
    throw new GatewayError('upstream_error', 'the provider sent no JSON', { cause })
  }
}

const partOf = (json: string): StreamPart => {
  const chunk = parsed(json)
  if (chunk.error !== undefined) throw new GatewayError('upstream_error', chunk.error.message)
  const choice = chunk.choices?.[0]
  const text = choice?.delta?.content ?? ''
  const toolNames = (choice?.delta?.tool_calls ?? []).flatMap(({ function: { name } }) =>
    name === undefined ? [] : [name],
  )
  return {
    json,
    content: text !== '' || choice?.delta?.tool_calls !== undefined || choice?.delta?.refusal !== undefined,
    text,
    bytes: Buffer.byteLength(text),
    finishReason: choice?.finish_reason ?? null,
    usage: usageOf(chunk.usage),
    usageOnly: chunk.choices?.length === 0,
    toolNames,
  }
}

export const plainKind: ProviderKind = {
  kind: 'plain',
  needsCredential: false,
  capabilities: ['chat', 'streaming', 'tools', 'json_mode', 'json_schema', 'parallel_tool', 'seed', 'vision'],
  defaultBaseUrl: null,
  usualEnv: null,
  request: ({ raw }, { baseUrl, upstreamModel, secret }) => ({
    method: 'POST',
    url: `${baseUrl}/chat/completions`,
    headers: { 'content-type': 'application/json', ...(secret === null ? {} : { authorization: `Bearer ${secret}` }) },
    body: editMembers(raw, new Map([['model', { do: 'set', json: JSON.stringify(upstreamModel) }]])),
    shaping: [],
  }),
  response(body) {
    const answer = parsed(body)
    const choice = answer.choices?.[0]
    if (choice === undefined) throw new GatewayError('upstream_error', 'the provider answered without choices')
    return {
      json: body,
      usage: usageOf(answer.usage),
      finishReason: choice.finish_reason ?? null,
      content: choice.message?.content ?? null,
      refusal: choice.message?.refusal != null,
      toolNames: (choice.message?.tool_calls ?? []).map((call) => call.function.name),
    }
  },
  stream() {
    let finished = false
    return {
      get complete() {
        return finished
      },
      push({ data }) {
        if (data === '[DONE]') {
          finished = true
          return []
        }
        const part = partOf(data)
        if (part.finishReason !== null) finished = true
        return [part]
      },
      unreadable: 0,
      end() {
        if (!finished) throw new GatewayError('upstream_error', 'the stream ended too early')
        return []
      },
    }
  },
  failure(status, _body, headers) {
    const after = headers.get('retry-after')
    return new GatewayError(CODES[status] ?? 'upstream_error', `the provider answered ${status}`, {
      upstreamStatus: status,
      ...(after === null ? {} : { retryAfterS: Number(after) }),
    })
  },
}
