// What records say again and again, as JSON text that is made once: both records of a request took 7 to 11 us in a loop and take
// 4.5 to 6.5 (docs/decisions/0052-records-written-over.md).
import type { RequestFacts } from '../../domain/events/request.ts'
import type { Static } from '../../lib/schema/schema.ts'
import type { TextPiece } from '../../lib/text/text-pieces.ts'
import { type GapValue, GrowingTemplate, gap } from '../../lib/text/text-template.ts'
import type { CatalogueEntry } from '../../state/port.ts'

/** Texts with a longer name of a model are not remembered: no model has one, and a name that is cut from a body keeps all of that body alive. */
const MOST_NAME_CHARS = 128
type Facts = Static<typeof RequestFacts>
/** What every request has of its own, or shares for a second. The ids and the user consist of letters, digits, dots, hyphens and underscores. */
type OwnFacts = Pick<Facts, 'id' | 'request_id' | 'trace_id' | 'at_ms' | 'seed' | 'frame' | 'user'>
/** What many requests of a key have in common. */
export type CommonFacts = Omit<Facts, keyof OwnFacts>

interface KnownFacts {
  readonly facts: CommonFacts
  readonly hasUser: boolean
  /** The common facts with a comma in front. */
  readonly json: string
  /** Of the whole facts, once they are met again. */
  template: GrowingTemplate | null
}

/** In all: they are forgotten together. */
const MOST_KNOWN = 1_024
/** Who uses several models or policies, now as streams and now not, has as many kinds of requests. */
const MOST_OF_KEY = 8
/** By key, of the last ones. */
let known = new Map<string, KnownFacts[]>()
let knownCount = 0

const isSame = (one: CommonFacts, other: CommonFacts): boolean =>
  one.requested_model === other.requested_model &&
  one.revision === other.revision &&
  one.stream === other.stream &&
  one.policy_id === other.policy_id &&
  one.strategy === other.strategy &&
  one.task === other.task &&
  one.endpoint === other.endpoint &&
  one.tenant_id === other.tenant_id &&
  one.purpose === other.purpose

const membersOf = (facts: CommonFacts): string => `,${JSON.stringify(facts).slice(1, -1)}`

/** Remembers these facts in place of the oldest of their key. */
const remember = (key: string, facts: CommonFacts, hasUser: boolean): KnownFacts => {
  const fresh: KnownFacts = { facts, hasUser, json: membersOf(facts), template: null }
  if (knownCount >= MOST_KNOWN) {
    known = new Map()
    knownCount = 0
  }
  const of = known.get(key)
  if (of?.length === MOST_OF_KEY) of.shift()
  else knownCount++
  if (of === undefined) known.set(key, [fresh])
  else of.push(fresh)
  return fresh
}

/** `RequestFacts` as JSON text without the closing brace: both records of a request begin with it. */
export type FactsText = Exclude<TextPiece, number>

export const requestFactsText = (own: OwnFacts, common: CommonFacts): FactsText => {
  const { key_id: key, requested_model: model } = common
  // A long name is not remembered: it may be cut from a text that would be kept alive.
  if (key === null || (model !== null && model.length > MOST_NAME_CHARS)) return ownJson(own) + membersOf(common)
  const hasUser = own.user !== null
  const of = known.get(key)
  if (of !== undefined)
    for (let i = of.length - 1; i >= 0; i--) {
      const last = of[i]!
      if (last.hasUser === hasUser && isSame(last.facts, common)) return textLike(last, own)
    }
  return ownJson(own) + remember(key, common, hasUser).json
}

const textLike = (last: KnownFacts, own: OwnFacts): FactsText => {
  last.template ??= new GrowingTemplate(ownJson(last.hasUser ? OWN_GAPS : { ...OWN_GAPS, user: null }) + last.json)
  const { id, request_id, trace_id, at_ms, seed, frame, user } = own
  const values: GapValue[] =
    user === null
      ? [id, request_id, trace_id, at_ms, seed, frame]
      : [id, request_id, trace_id, at_ms, seed, frame, user]
  return last.template.filled(values) ?? ownJson(own) + last.json
}

const ownJson = (own: OwnFacts): string => JSON.stringify(own).slice(0, -1)

const OWN_GAPS: OwnFacts = {
  id: String(gap(0)),
  request_id: String(gap(1)),
  trace_id: String(gap(2)),
  at_ms: gap(3),
  seed: gap(4),
  frame: gap(5),
  user: String(gap(6)),
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
