// The kind of every upstream that speaks the OpenAI wire. What differs between them is a row: `kinds.ts`.
import { isObject } from '../wire/json.ts'
import { malformed, statusFailure } from './failure.ts'
import { openaiAnswer } from './openai-answer.ts'
import { bearer, joinUrl, openaiRequest, type RequestQuirks } from './openai-request.ts'
import { openaiStream } from './openai-stream.ts'
import type { Capability, ListedModel, ProviderKind } from './provider.ts'
import { countOf, objectOf, parseJson } from './read-json.ts'

export interface OpenAiRow extends Partial<RequestQuirks> {
  readonly kind: string
  readonly needsCredential: boolean
  readonly capabilities: readonly Capability[]
  readonly defaultBaseUrl: string | null
  readonly usualEnv: string | null
  /** False for listed models that cannot chat. Default: all can. */
  readonly chats?: (id: string) => boolean
}

const MOST_LISTED = 10_000
const positive = (...values: readonly unknown[]): number | null => {
  for (const value of values) {
    const count = countOf(value)
    if (count !== null && count > 0) return count
  }
  return null
}

/** `{data: [...]}`, `{models: [...]}` or a bare list; sizes under the names that vLLM, llama.cpp, Groq, Mistral and OpenRouter use. */
const readListing = (body: string, chats: (id: string) => boolean): readonly ListedModel[] => {
  const parsed = parseJson(body)
  const list = Array.isArray(parsed) ? parsed : (objectOf(parsed).data ?? objectOf(parsed).models)
  if (!Array.isArray(list)) throw malformed('it lists no models')
  const models: ListedModel[] = []
  for (const row of list.slice(0, MOST_LISTED)) {
    if (!isObject(row) || typeof row.id !== 'string' || row.id === '' || !chats(row.id)) continue
    models.push({
      name: row.id,
      contextWindow: positive(
        row.context_window,
        row.context_length,
        row.max_model_len,
        row.max_context_length,
        objectOf(row.meta).n_ctx,
        objectOf(row.meta).n_ctx_train,
      ),
      maxOutputTokens: positive(
        row.max_completion_tokens,
        row.max_output_tokens,
        objectOf(row.top_provider).max_completion_tokens,
      ),
      capabilities: null,
    })
  }
  return models
}

export const openaiShaped = (row: OpenAiRow): ProviderKind => {
  const { kind, needsCredential, capabilities, defaultBaseUrl, usualEnv, chats = () => true, headers } = row
  const quirks: RequestQuirks = {
    drop: row.drop ?? [],
    reasoningFamilies: row.reasoningFamilies ?? false,
    ...(headers === undefined ? {} : { headers }),
  }
  return {
    kind,
    needsCredential,
    capabilities,
    defaultBaseUrl,
    usualEnv,
    request: (call, target) => openaiRequest(call, target, quirks),
    response: openaiAnswer,
    stream: openaiStream,
    failure: (status, body, headers, reading) => statusFailure(status, body, headers, reading),
    listing: {
      request: (target) => ({
        method: 'GET',
        url: joinUrl(target.baseUrl, '/models'),
        headers: { accept: 'application/json', ...bearer(target.secret), ...headers?.(target) },
        body: null,
        shaping: [],
      }),
      read: (body) => readListing(body, chats),
    },
  }
}
