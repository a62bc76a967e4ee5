// The records of a request as JSON text. Written by hand, as templates: `JSON.stringify` of the same objects takes twice as long where memory is cold, twice for each
// request (docs/profile.md). What they say is declared in `domain/request.ts`; `tests/inference/record-text.property.test.ts` holds them against it.
import type { BudgetCharge, BudgetPart } from '../domain/budget-events.ts'
import type { AttemptSummary, RequestFacts } from '../domain/request.ts'
import { jsonText } from '../lib/json-text.ts'
import type { Static } from '../lib/schema.ts'
import type { CatalogueEntry } from '../state/port.ts'

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

const commonJson = (facts: CommonFacts): string => {
  const { key_id: key } = facts
  if (key === null) return JSON.stringify(facts).slice(1, -1)
  const last = known.get(key)
  if (last !== undefined && isSame(last.facts, facts)) return last.json
  const json = JSON.stringify(facts).slice(1, -1)
  if (known.size >= MOST_KNOWN) known = new Map()
  known.set(key, { facts, json })
  return json
}

/** `RequestFacts`, without the closing brace. */
export const requestFactsJson = (
  { id, requestId, traceId, atMs }: { readonly id: string; requestId: string; traceId: string; atMs: number },
  seed: number,
  common: CommonFacts,
): string =>
  `{"id":"${id}","request_id":${requestId === id ? `"${id}"` : jsonText(requestId)},"trace_id":"${traceId}","at_ms":${atMs},"seed":${seed},${commonJson(common)}`

interface EntryTexts {
  /** Ids as the beginning of a candidate. */
  readonly candidate: string
  /** Members of an admission, up to the estimate of its prompt. */
  readonly first: string
  /** Who served or failed, in a settlement. */
  readonly routed: string
  /** Who was called, in an attempt. */
  readonly called: string
}
const texts = new WeakMap<CatalogueEntry, EntryTexts>()
const inner = (members: object): string => JSON.stringify(members).slice(1, -1)

/** What the records say of a catalogue entry: made once for each. */
export const entryTexts = (entry: CatalogueEntry): EntryTexts => {
  const made = texts.get(entry)
  if (made !== undefined) return made
  const { provider, providerId, name, modelId } = entry
  const first = inner({ provider, provider_id: providerId, model: name, model_id: modelId })
  const fresh: EntryTexts = {
    candidate: `[${JSON.stringify(providerId)},${JSON.stringify(modelId)},`,
    first: `,${first},"prompt_tokens_estimate":`,
    routed: inner({ provider, provider_id: providerId, routed_model: name, model_id: modelId }),
    called: inner({ provider, model: name }),
  }
  texts.set(entry, fresh)
  return fresh
}

/** Attempts as a list. `last`: who was called last. */
export const attemptsJson = (attempts: readonly AttemptSummary[], last: CatalogueEntry | null): string => {
  const [first] = attempts
  const isPlain = attempts.length === 1 && last !== null && first!.provider === last.provider
  if (!isPlain || first!.model !== last.name || first!.cost_basis !== undefined) return JSON.stringify(attempts)
  const { outcome, error_code, upstream_status, latency_ms, ttft_ms } = first!
  const code = error_code === null ? 'null' : `"${error_code}"`
  return `[{"n":1,${entryTexts(last).called},"outcome":"${outcome}","error_code":${code},"upstream_status":${upstream_status},"latency_ms":${latency_ms},"ttft_ms":${ttft_ms}}]`
}

/** What providers count may be no number that JSON has. */
export const countJson = (count: number | null): number | null =>
  count === null || Number.isFinite(count) ? count : null

/** Accounts and holders are ids of ours: nothing in them needs to be escaped. */
const partText = ({ account, holder, leased, nano_usd, tokens }: BudgetPart): string =>
  `{"account":"${account}","holder":"${holder}","leased":${leased},"nano_usd":${nano_usd},"tokens":${tokens}`

/** `budget` of an admission or an attempt. */
export const partsJson = (parts: readonly BudgetPart[]): string => {
  let json = '['
  for (let i = 0; i < parts.length; i++) json += `${i === 0 ? '' : ','}${partText(parts[i]!)}}`
  return `${json}]`
}

/** `budget` of a settlement. */
export const chargesJson = (charges: readonly BudgetCharge[]): string => {
  let json = '['
  for (let i = 0; i < charges.length; i++) json += `${i === 0 ? '' : ','}${chargeText(charges[i]!)}`
  return `${json}]`
}

const chargeText = (charge: BudgetCharge): string => {
  const { total, overrun_nano_usd: overrun } = charge
  const text = partText(charge)
  if (overrun !== undefined || total === undefined || total.overrun_tokens !== undefined) return JSON.stringify(charge)
  const { spent, counted, overrun_nano_usd } = total
  return `${text},"total":{"spent":{"nano_usd":${spent.nano_usd},"tokens":${spent.tokens}},"counted":{"nano_usd":${counted.nano_usd},"tokens":${counted.tokens}},"overrun_nano_usd":${overrun_nano_usd}}}`
}
