// Station 7: the answer as the client gets it. The upstream's text, with the `gateway` block spliced in.

import { editMembers, memberText } from '../../lib/json/edit.ts'
import { parseExact } from '../../lib/json/exact-json.ts'
import type { TextPieces } from '../../lib/text/text-pieces.ts'
import type { Answer } from '../../providers/port.ts'
import { type CompletionFacts, completionJson, type StopReason, toolRunJson } from '../../wire/chat.ts'
import { GatewayError } from '../../wire/errors.ts'
import { withGatewayPieces } from '../../wire/gateway-block.ts'
import { isObject } from '../../wire/json.ts'
import type { ChoiceFacts } from '../intent/choices.ts'
import type { Intent } from '../intent/intent.ts'
import { checkStructured, demandsJson, structuredJson } from '../intent/structured.ts'
import type { Measured } from '../money/charge.ts'
import type { Exchange } from '../request/exchange.ts'
import type { Called, Planned } from '../request/progress.ts'
import { withUsage } from './shown-usage.ts'

/** An answer that violates the requested `response_format`. The cost has arisen: the block shows it. */
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

/** How an answer was cut short. */
export type Cut = Pick<CompletionFacts, 'finishReason' | 'reason'>

const CAPPED: Cut = { finishReason: 'length', reason: 'max_tokens' }
export const OUT_OF_TIME: Cut = { finishReason: 'length', reason: 'timeout' }

/** How an answer that ended by itself was cut: by its length, or not at all. */
export const cutOf = (finishReason: string | null): Cut | null => (finishReason === 'length' ? CAPPED : null)

/** What the optional members of the block are made of. */
export interface Extras {
  /** Null: it is whole. */
  readonly cut: Cut | null
  readonly toolNames: readonly string[]
  readonly stopReason: StopReason
  /** Null: nothing was checked. */
  readonly checked: Checked | null
}

/**
 * The choices meet the `response_format`. `repaired`: JSON text that replaces the content of choices that had it in a
 * code fence, by their place.
 */
export interface Checked {
  readonly repaired: ReadonlyMap<number, string>
}

/**
 * Optional members of the block: `completion` for an answer that was cut short, `structured` and `tool_run` on request.
 */
export const extraMembers = (exchange: Planned, measured: Measured, extras: Extras): string => {
  const { intent } = exchange
  let more = ''
  if (extras.cut !== null) {
    more += completionJson({
      ...extras.cut,
      requestedTokens: intent.maxTokens,
      promptTokens: measured.promptTokens,
      completionTokens: measured.completionTokens,
      budgetMs: exchange.plan.policy.totalMs,
    })
  }
  more += toolRunMember(exchange, intent, extras.toolNames, extras.stopReason)
  return more + structuredMember(intent, extras.checked)
}

/** The same members for a failure before any part of an answer; '' while the request is not read. */
export const failureMembers = (exchange: Exchange, error: unknown): string => {
  const { intent } = exchange
  if (intent === null) return ''
  const structured = error instanceof NonConforming ? error.blockJson : structuredMember(intent, null)
  return toolRunMember(exchange, intent, [], stopReasonOf(error)) + structured
}

/** The stop reason of tools when the request fails. */
export const stopReasonOf = (error: unknown): StopReason =>
  error instanceof GatewayError && error.code === 'timeout' ? 'timeout' : 'error'

/** `tool_run`, where it was requested or tools were called; else ''. */
const toolRunMember = (
  exchange: Exchange,
  { toolExecution }: Intent,
  toolNames: readonly string[],
  stopReason: StopReason,
): string =>
  toolExecution === null && toolNames.length === 0 ? '' : toolRunJson(toolNames, stopReason, exchange.latencyMs())

/** `structured`, where a `response_format` was sent; else ''. */
const structuredMember = ({ structured }: Intent, checked: Checked | null): string =>
  structured === null ? '' : structuredJson(structured, verdictOf(checked))

const verdictOf = (checked: Checked | null) =>
  checked === null ? null : { valid: true, error: null, repaired: checked.repaired.size > 0 }

const NOTHING_REPAIRED: ReadonlyMap<number, string> = new Map()

/**
 * Checks every choice against the `response_format`; one violation fails the answer. Null: no choice was checked, since
 * tool calls, refusals and truncated choices violate nothing. Throws NonConforming.
 */
export const conformance = ({ structured }: Intent, choices: readonly ChoiceFacts[]): Checked | null => {
  if (structured === null || !demandsJson(structured)) return null
  let repaired: Map<number, string> | null = null
  let checked = 0
  for (let i = 0; i < choices.length; i++) {
    const { content, finishReason, refusal, toolNames } = choices[i]!
    if (refusal || toolNames.length > 0 || finishReason === 'length' || finishReason === 'content_filter') continue
    checked++
    const result = checkStructured(structured, content ?? '')
    if (!result.valid) {
      const error = choices.length === 1 ? result.error! : `choice ${i}: ${result.error}`
      throw new NonConforming(error, structuredJson(structured, { valid: false, error, repaired: false }))
    }
    if (result.repaired === null) continue
    repaired ??= new Map()
    repaired.set(i, result.repaired)
  }
  return checked === 0 ? null : { repaired: repaired ?? NOTHING_REPAIRED }
}

/** The whole answer as JSON text, in pieces. */
export const answerJson = (
  exchange: Called,
  answer: Answer,
  /** `length` when any choice was cut. */
  finishReason: string | null,
  checked: Checked | null,
  measured: Measured,
): TextPieces => {
  const { intent } = exchange
  const plain = finishReason !== 'length' && answer.toolNames.length === 0 && intent.toolExecution === null
  const more =
    plain && intent.structured === null
      ? ''
      : extraMembers(exchange, measured, {
          cut: cutOf(finishReason),
          toolNames: answer.toolNames,
          stopReason: 'completed',
          checked,
        })
  const text =
    checked === null || checked.repaired.size === 0 ? answer.json : withContents(answer.json, checked.repaired)
  return withGatewayPieces(withUsage(text, answer.usage, measured), exchange.facts(), more)
}

/** Replaces the content of choices by their places; all bytes outside `choices` stay. */
const withContents = (json: string, contents: ReadonlyMap<number, string>): string => {
  const choices: unknown = parseExact(memberText(json, 'choices') ?? '[]')
  if (!Array.isArray(choices)) return json
  const repaired = choices.map((choice: unknown, place) => {
    const content = contents.get(place)
    if (content === undefined || !isObject(choice) || !isObject(choice.message)) return choice
    return { ...choice, message: { ...choice.message, content } }
  })
  return editMembers(json, new Map([['choices', { do: 'set', json: JSON.stringify(repaired) }]]))
}
