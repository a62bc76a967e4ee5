// Station 7: the answer as the client gets it. The upstream's text, with the `gateway` block spliced in.
import { parseExact } from '../lib/exact-json.ts'
import { appendMembers, editMembers, memberText } from '../lib/json-edit.ts'
import type { Answer } from '../providers/provider.ts'
import { type CompletionFacts, completionJson, toolRunJson } from '../wire/chat.ts'
import { GatewayError } from '../wire/errors.ts'
import { gatewayJson } from '../wire/gateway-block.ts'
import { isObject } from '../wire/json.ts'
import type { Exchange } from './exchange.ts'
import type { Intent } from './intent.ts'
import type { Measured } from './settle.ts'
import { checkStructured, demandsJson, type StructuredResult, structuredJson } from './structured.ts'

/** An answer that breaks the `response_format` that was asked for. The cost has arisen: the block says so. */
export class NonConforming extends GatewayError {
  constructor(
    error: string,
    /** `gateway.structured` as a member of the block. */
    readonly blockJson: string,
  ) {
    super('invalid_request', `the answer does not conform to \`response_format\`: ${error}`, {
      param: 'response_format',
    })
  }
}

/** The parts of the block that only some answers have. */
export interface Extras {
  readonly finishReason: string | null
  readonly reason: CompletionFacts['reason']
  readonly toolNames: readonly string[]
  readonly structured: StructuredResult | null
}

/** Optional members of the block: `completion` when the answer was cut short, `structured` and `tool_run` when asked for. */
export const extraMembers = (exchange: Exchange, intent: Intent, measured: Measured, extras: Extras): string => {
  let more = ''
  if (extras.finishReason === 'length') {
    more += completionJson({
      finishReason: extras.finishReason,
      reason: extras.reason,
      requestedTokens: intent.maxTokens,
      promptTokens: measured.promptTokens,
      completionTokens: measured.completionTokens,
      budgetMs: exchange.plan!.policy.totalMs,
    })
  }
  if (intent.toolExecution !== null || extras.toolNames.length > 0)
    more += toolRunJson(extras.toolNames, exchange.latencyMs())
  if (intent.structured !== null) more += structuredJson(intent.structured, extras.structured)
  return more
}

/** Checks an answer's text against the `response_format`. Null: not checked, since tool calls, refusals and truncated answers break nothing. Throws NonConforming. */
export const conformance = (
  intent: Intent,
  answer: { content: string | null; finishReason: string | null; refusal: boolean; toolNames: readonly string[] },
): StructuredResult | null => {
  const { structured } = intent
  if (structured === null || !demandsJson(structured) || answer.refusal || answer.toolNames.length > 0) return null
  if (answer.finishReason === 'length' || answer.finishReason === 'content_filter') return null
  const result = checkStructured(structured, answer.content ?? '')
  if (!result.valid) throw new NonConforming(result.error!, structuredJson(structured, result))
  return result
}

/** The whole answer as JSON text. */
export const answerJson = (
  exchange: Exchange,
  intent: Intent,
  answer: Answer,
  structured: StructuredResult | null,
  measured: Measured,
): string => {
  const plain = answer.finishReason !== 'length' && answer.toolNames.length === 0 && intent.toolExecution === null
  const more =
    plain && intent.structured === null
      ? ''
      : extraMembers(exchange, intent, measured, {
          finishReason: answer.finishReason,
          reason: 'max_tokens',
          toolNames: answer.toolNames,
          structured,
        })
  const text = structured?.repaired == null ? answer.json : withContent(answer.json, structured.repaired)
  return appendMembers(text, `"gateway":${gatewayJson(exchange.facts(), more)}`)
}

/** Replaces the content of the first choice; every member outside `choices` keeps its bytes. */
const withContent = (json: string, content: string): string => {
  const choices: unknown = parseExact(memberText(json, 'choices') ?? '[]')
  if (!Array.isArray(choices)) return json
  const [first, ...rest] = choices
  if (!isObject(first) || !isObject(first.message)) return json
  const repaired = [{ ...first, message: { ...first.message, content } }, ...rest]
  return editMembers(json, new Map([['choices', { do: 'set', json: JSON.stringify(repaired) }]]))
}
