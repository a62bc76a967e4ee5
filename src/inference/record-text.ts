// What records say again and again, as text that is made once: the log names it in most of them instead of spelling it (log/shared-data.ts). The rest of a record the
// runtime writes from an object: in pieces of their own, its members took twice as long (docs/profile.md).
import type { BudgetCharge, BudgetPart } from '../domain/budget-events.ts'
import type { RequestFacts } from '../domain/request.ts'
import type { Static } from '../lib/schema.ts'
import { SharedText } from '../lib/shared-text.ts'
import type { CatalogueEntry } from '../state/port.ts'

type Facts = Static<typeof RequestFacts>
export type OwnFacts = Pick<Facts, 'id' | 'request_id' | 'trace_id' | 'at_ms' | 'seed'>
/** What the requests of a key have in common for a while. */
export type CommonFacts = Omit<Facts, keyof OwnFacts>

/** Of a record, one after another. */
export type Piece = string | number | SharedText

interface KnownFacts {
  readonly facts: CommonFacts
  readonly json: SharedText
}

const MOST_KNOWN = 1_024
/** Nobody's model has a longer name, and one that was cut short keeps all of the text that it was cut from: as much as a body may hold, for each key. */
const MOST_NAME_CHARS = 128
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

const commonJsonOf = (facts: CommonFacts): string | SharedText => {
  const { key_id: key, requested_model: model } = facts
  if (key === null || (model !== null && model.length > MOST_NAME_CHARS)) return JSON.stringify(facts).slice(1, -1)
  const last = known.get(key)
  if (last !== undefined && isSame(last.facts, facts)) return last.json
  const json = new SharedText(JSON.stringify(facts).slice(1, -1))
  if (known.size >= MOST_KNOWN) known = new Map()
  known.set(key, { facts, json })
  return json
}

/** What both records of a request say of it. */
export interface RecordFacts {
  readonly own: OwnFacts
  /** The other members, as JSON. */
  readonly commonJson: string | SharedText
}

export const recordFacts = (own: OwnFacts, common: CommonFacts): RecordFacts => ({
  own,
  commonJson: commonJsonOf(common),
})

interface EntryTexts {
  /** Ids as the beginning of a candidate. */
  readonly candidate: string
  /** Members of an admission, up to the estimate of its prompt. */
  readonly first: SharedText
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
    first: new SharedText(`,${first},"prompt_tokens_estimate":`),
  }
  texts.set(entry, fresh)
  return fresh
}

interface KnownPart {
  readonly holder: string
  readonly leased: boolean
  readonly opening: SharedText
}
/** By account: a process has one holder in each, most of the time. */
let parts = new Map<string, KnownPart>()

/** An account of a record up to what it costs. */
const openingOf = ({ account, holder, leased }: BudgetPart): SharedText => {
  const last = parts.get(account)
  if (last !== undefined && last.holder === holder && last.leased === leased) return last.opening
  const opening = new SharedText(`${JSON.stringify({ account, holder, leased }).slice(0, -1)},"nano_usd":`)
  if (parts.size >= MOST_KNOWN) parts = new Map()
  parts.set(account, { holder, leased, opening })
  return opening
}

/** The member of a record that says what it reserves or charges, with a comma before it. */
export const pushBudget = (into: Piece[], budget: readonly (BudgetPart | BudgetCharge)[] | undefined): void => {
  if (budget === undefined) return
  for (let i = 0; i < budget.length; i++) {
    const part: BudgetCharge = budget[i]!
    into.push(i === 0 ? ',"budget":[' : ',', openingOf(part), part.nano_usd, ',"tokens":', part.tokens)
    if (part.overrun_nano_usd !== undefined) into.push(',"overrun_nano_usd":', part.overrun_nano_usd)
    if (part.total !== undefined) into.push(',"total":', JSON.stringify(part.total))
    into.push('}')
  }
  into.push(budget.length === 0 ? ',"budget":[]' : ']')
}
