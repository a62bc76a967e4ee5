// The usage that a client sees says the tokens that are recorded: the provider's, and our estimates of those that it does not tell.
import { parseExact } from '../lib/exact-json.ts'
import { editMembers, memberText } from '../lib/json-edit.ts'
import type { Usage } from '../providers/provider.ts'
import { usageOf } from '../wire/chat.ts'
import { isObject } from '../wire/json.ts'
import type { Measured } from './charge.ts'

/** An answer or a usage chunk with the recorded tokens; itself where the provider told all of them. */
export const withUsage = (
  json: string,
  told: Usage | null,
  { promptTokens, completionTokens }: Pick<Measured, 'promptTokens' | 'completionTokens'>,
): string => {
  if (told !== null && told.promptTokens !== null && told.completionTokens !== null) return json
  const given: unknown = parseExact(memberText(json, 'usage') ?? 'null')
  const counts = usageOf(promptTokens ?? 0, completionTokens ?? 0)
  const usage = isObject(given) ? { ...given, ...counts } : counts
  return editMembers(json, new Map([['usage', { do: 'set', json: JSON.stringify(usage) }]]))
}
