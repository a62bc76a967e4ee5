// What records say again and again, as JSON text that is made once. The rest of them the runtime writes from objects: templates of as many members are faster in a
// loop, and make so many strings that nothing is left of it in a gateway (docs/profile.md).
import type { RequestFacts } from '../domain/request.ts'
import type { Static } from '../lib/schema.ts'
import type { CatalogueEntry } from '../state/port.ts'
import { MOST_NAME_CHARS } from '../wire/gateway-block.ts'

type Facts = Static<typeof RequestFacts>
/** What the requests of a key have in common for a while. */
export type CommonFacts = Omit<Facts, 'id' | 'request_id' | 'trace_id' | 'at_ms' | 'seed'>

interface KnownFacts {
  readonly facts: CommonFacts
  readonly json: string
}

const MOST_KNOWN = 1_024
/** By key, of the last ones. */
let known = new Map<string, KnownFacts>()

const isSame = (one: CommonFacts, other: CommonFacts): boolean =>
  one.requested_model === other.requested_model &&
  one.revision === other.revision &&
  one.frame === other.frame &&
  one.stream === other.stream &&
  one.policy_id === other.policy_id &&
  one.strategy === other.strategy &&
  one.task === other.task &&
  one.endpoint === other.endpoint &&
  one.user === other.user &&
  one.tenant_id === other.tenant_id &&
  one.purpose === other.purpose

/** With a comma in front. */
const membersOf = (facts: CommonFacts): string => `,${JSON.stringify(facts).slice(1, -1)}`

const commonJson = (facts: CommonFacts): string => {
  const { key_id: key, requested_model: model } = facts
  if (key === null || (model !== null && model.length > MOST_NAME_CHARS)) return membersOf(facts)
  const last = known.get(key)
  if (last !== undefined && isSame(last.facts, facts)) return last.json
  const json = membersOf(facts)
  if (known.size >= MOST_KNOWN) known = new Map()
  known.set(key, { facts, json })
  return json
}

/** `RequestFacts` as JSON text without the closing brace, in two pieces: both records of a request begin with them, and neither is put together first. */
export interface FactsText {
  readonly own: string
  readonly common: string
}

export const requestFactsText = (own: Omit<Facts, keyof CommonFacts>, common: CommonFacts): FactsText => ({
  own: JSON.stringify(own).slice(0, -1),
  common: commonJson(common),
})

interface EntryTexts {
  /** Ids as the beginning of a candidate. */
  readonly candidate: string
  /** Members of an admission, up to the estimate of its prompt. */
  readonly first: string
}
const texts = new WeakMap<CatalogueEntry, EntryTexts>()

/** What the records say of a catalogue entry: made once for each. */
export const entryTexts = (entry: CatalogueEntry): EntryTexts => {
  const made = texts.get(entry)
  if (made !== undefined) return made
  const { provider, providerId, name, modelId } = entry
  const first = JSON.stringify({ provider, provider_id: providerId, model: name, model_id: modelId }).slice(1, -1)
  const fresh: EntryTexts = {
    candidate: `[${JSON.stringify(providerId)},${JSON.stringify(modelId)},`,
    first: `,${first},"prompt_tokens_estimate":`,
  }
  texts.set(entry, fresh)
  return fresh
}
