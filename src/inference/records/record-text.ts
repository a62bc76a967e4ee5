// The recurring parts of records as JSON text that is made once (docs/decisions/0052-records-written-over.md).
import type { RequestFacts } from '../../domain/events/request.ts'
import type { Static } from '../../lib/schema/schema.ts'
import type { TextPiece } from '../../lib/text/text-pieces.ts'
import { type GapValue, GrowingTemplate, gap } from '../../lib/text/text-template.ts'
import type { CatalogueEntry } from '../../state/port.ts'

/**
 * Facts with a longer name of a model are not cached: no model has one, and a name cut from a body retains all of that
 * body.
 */
const MAX_NAME_CHARS = 128
type Facts = Static<typeof RequestFacts>
/** Facts of one request, and those that change every second. The ids and the user consist of `[A-Za-z0-9._-]`. */
type OwnFacts = Pick<Facts, 'id' | 'request_id' | 'trace_id' | 'at_ms' | 'seed' | 'frame' | 'user'>
/** Facts that many requests of a key have in common. */
export type CommonFacts = Omit<Facts, keyof OwnFacts>

interface CachedFacts {
  readonly facts: CommonFacts
  readonly hasUser: boolean
  /** The common facts with a comma in front. */
  readonly json: string
  /** Template of all facts, from their second request on. */
  template: GrowingTemplate | null
}

/** Bound of all keys together: at it all are evicted. */
const MAX_CACHED = 1_024
/** Bound of one key, which may use several models and policies, with and without streams. */
const MAX_CACHED_OF_KEY = 8

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

/** The last facts of the keys that sent requests. */
class FactsCache {
  readonly #byKey = new Map<string, CachedFacts[]>()
  #size = 0

  get(key: string, facts: CommonFacts, hasUser: boolean): CachedFacts | null {
    const ofKey = this.#byKey.get(key)
    if (ofKey === undefined) return null
    for (let i = ofKey.length - 1; i >= 0; i--) {
      const cached = ofKey[i]!
      if (cached.hasUser === hasUser && isSame(cached.facts, facts)) return cached
    }
    return null
  }

  /** Evicts the oldest facts of the key where it has too many. */
  add(key: string, facts: CommonFacts, hasUser: boolean): CachedFacts {
    const added: CachedFacts = { facts, hasUser, json: membersOf(facts), template: null }
    if (this.#size >= MAX_CACHED) {
      this.#byKey.clear()
      this.#size = 0
    }
    const ofKey = this.#byKey.get(key)
    if (ofKey?.length === MAX_CACHED_OF_KEY) ofKey.shift()
    else this.#size++
    if (ofKey === undefined) this.#byKey.set(key, [added])
    else ofKey.push(added)
    return added
  }
}

/** One for the process and not in `deps`: texts depend on the facts alone and change no byte of a record. */
const cache = new FactsCache()

/** `RequestFacts` as JSON text without the closing brace: both records of a request begin with it. */
export type FactsText = Exclude<TextPiece, number>

export const requestFactsText = (own: OwnFacts, common: CommonFacts): FactsText => {
  const { key_id: key, requested_model: model } = common
  if (key === null || (model !== null && model.length > MAX_NAME_CHARS)) return ownJson(own) + membersOf(common)
  const hasUser = own.user !== null
  const cached = cache.get(key, common, hasUser)
  return cached === null ? ownJson(own) + cache.add(key, common, hasUser).json : filledText(cached, own)
}

const filledText = (cached: CachedFacts, own: OwnFacts): FactsText => {
  const { hasUser, json } = cached
  cached.template ??= new GrowingTemplate(ownJson(hasUser ? OWN_GAPS : { ...OWN_GAPS, user: null }) + json)
  const { id, request_id, trace_id, at_ms, seed, frame, user } = own
  const values: GapValue[] =
    user === null
      ? [id, request_id, trace_id, at_ms, seed, frame]
      : [id, request_id, trace_id, at_ms, seed, frame, user]
  return cached.template.filled(values) ?? ownJson(own) + json
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
  /** The beginning of a candidate: its ids. */
  readonly candidate: string
  /** Members of an admission, up to the estimate of its prompt. */
  readonly first: string
}
/** As long as an entry of the catalogue lives. */
const texts = new WeakMap<CatalogueEntry, EntryTexts>()

/** The texts of a catalogue entry, made once for each. */
export const entryTexts = (entry: CatalogueEntry): EntryTexts => {
  const cached = texts.get(entry)
  if (cached !== undefined) return cached
  const { provider, providerId, name, modelId } = entry
  const first = JSON.stringify({ provider, provider_id: providerId, model: name, model_id: modelId }).slice(1, -1)
  const made: EntryTexts = {
    candidate: `[${JSON.stringify(providerId)},${JSON.stringify(modelId)},`,
    first: `,${first},"prompt_tokens_estimate":`,
  }
  texts.set(entry, made)
  return made
}
