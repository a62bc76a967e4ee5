// What records say again and again, as JSON text that is made once: both records of a request took 7 to 11 us in a loop and take
// 4.5 to 6.5 (docs/decisions/0052-records-written-over.md).
import type { RequestFacts } from '../domain/request.ts'
import type { Static } from '../lib/schema.ts'
import type { TextPiece } from '../lib/text-pieces.ts'
import { GrowingTemplate, gap } from '../lib/text-template.ts'
import type { CatalogueEntry } from '../state/port.ts'
import { MOST_NAME_CHARS } from '../wire/gateway-block.ts'

type Facts = Static<typeof RequestFacts>
/** What the requests of a key have in common for a while. */
export type CommonFacts = Omit<Facts, 'id' | 'request_id' | 'trace_id' | 'at_ms' | 'seed'>

interface KnownFacts {
  readonly facts: CommonFacts
  readonly json: string
  /** Of the whole facts, once they are met again. */
  template: GrowingTemplate | null
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

/** What is known of the key; null: it was not met before, or not in this way. */
const knownOf = (facts: CommonFacts): KnownFacts | null => {
  const last = facts.key_id === null ? undefined : known.get(facts.key_id)
  return last !== undefined && isSame(last.facts, facts) ? last : null
}

/** The facts as JSON text, remembered unless it would keep a long text alive. */
const remembered = (facts: CommonFacts): string => {
  const { key_id: key, requested_model: model } = facts
  const json = membersOf(facts)
  if (key === null || (model !== null && model.length > MOST_NAME_CHARS)) return json
  if (known.size >= MOST_KNOWN) known = new Map()
  known.set(key, { facts, json, template: null })
  return json
}

/** `RequestFacts` as JSON text without the closing brace: both records of a request begin with it. */
export type FactsText = Exclude<TextPiece, number>

/** What every request has of its own. The ids consist of letters, digits, dots, hyphens and underscores. */
type OwnFacts = Omit<Facts, keyof CommonFacts>

export const requestFactsText = (own: OwnFacts, common: CommonFacts): FactsText => {
  const last = knownOf(common)
  if (last === null) return ownJson(own) + remembered(common)
  last.template ??= new GrowingTemplate(ownJson(OWN_GAPS) + last.json)
  const filled = last.template.filled([own.id, own.request_id, own.trace_id, own.at_ms, own.seed])
  return filled ?? ownJson(own) + last.json
}

const ownJson = (own: OwnFacts): string => JSON.stringify(own).slice(0, -1)

const OWN_GAPS: OwnFacts = {
  id: String(gap(0)),
  request_id: String(gap(1)),
  trace_id: String(gap(2)),
  at_ms: gap(3),
  seed: gap(4),
}

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
