// The usage that a client gets shows the recorded tokens: those of the provider, and estimates of those that it does
// not report.

import { editMembers, memberText } from '../../lib/json/edit.ts'
import { parseExact } from '../../lib/json/exact-json.ts'
import { saneUsage } from '../../providers/openai/openai.ts'
import type { Usage } from '../../providers/port.ts'
import { countOf } from '../../providers/shared/read-json.ts'
import { usageOf } from '../../wire/chat.ts'
import { isObject } from '../../wire/json.ts'
import type { Measured } from '../money/charge.ts'

/** An answer or a usage chunk with the recorded tokens; unchanged where the provider reported all of them. */
export const withUsage = (
  json: string,
  reported: Usage | null,
  { promptTokens, completionTokens }: Pick<Measured, 'promptTokens' | 'completionTokens'>,
): string => {
  if (reported !== null && reported.promptTokens !== null && reported.completionTokens !== null) return json
  const given: unknown = parseExact(memberText(json, 'usage') ?? 'null')
  const counts = usageOf(promptTokens ?? 0, completionTokens ?? 0)
  const usage = isObject(given) ? { ...given, ...counts } : counts
  return editMembers(json, new Map([['usage', { do: 'set', json: JSON.stringify(usage) }]]))
}

/**
 * The recorded tokens for a chunk of their own, with all that the provider reported in a chunk of the answer: cached
 * and reasoning tokens, its cost.
 */
export const usageOfStream = (
  reported: Usage | null,
  measured: Pick<Measured, 'promptTokens' | 'completionTokens'>,
): Readonly<Record<string, unknown>> => {
  const raw = reported?.raw
  // Another wire reports usage in fields of its own.
  if (!isObject(raw) || countOf(raw.prompt_tokens) === null)
    return usageOf(measured.promptTokens ?? 0, measured.completionTokens ?? 0)
  return saneUsage(raw, measured) ?? raw
}
