// What an outcome adds to usage: sums and histograms by bucket, tenant and dimension. Pure; integers only, so that no order matters.
import type { AttemptSummary, RequestSettled } from '../../src/domain/request.ts'
import { storableText } from '../database.ts'
import { BILLED, billed, billedOf } from './billed.ts'
import { addBin, addBins, type Bins, binOf } from './histogram.ts'

/** The part of an outcome that usage is made of. */
export type UsageFacts = Pick<
  RequestSettled,
  | 'at_ms'
  | 'tenant_id'
  | 'key_id'
  | 'provider'
  | 'routed_model'
  | 'endpoint'
  | 'policy_id'
  | 'error_code'
  | 'outcome'
  | 'cache_hit'
  | 'fallback_used'
  | 'prompt_tokens'
  | 'completion_tokens'
  | 'cached_prompt_tokens'
  | 'reasoning_tokens'
  | 'cost_nano_usd'
  | 'latency_ms'
  | 'ttft_ms'
  | 'attempts'
  | 'purpose'
>

/** The counters of a cell; columns of the same names. */
export const COUNTERS = [
  'requests',
  'failed',
  'interrupted',
  'denied',
  'orphaned',
  'canceled',
  'cache_hits',
  'fallbacks',
  'unpriced',
  'attempts',
  'failed_attempts',
  'prompt_tokens',
  'completion_tokens',
  'cached_prompt_tokens',
  'reasoning_tokens',
  'cost_nano_usd',
] as const
export type Counter = (typeof COUNTERS)[number]

/** The order of `Cell.sums`. */
export const SUMS = [...COUNTERS, ...BILLED] as const

const ATTEMPTS = SUMS.indexOf('attempts')
const FAILED_ATTEMPTS = SUMS.indexOf('failed_attempts')
const COST = SUMS.indexOf('cost_nano_usd')
const FIRST_BILLED = COUNTERS.length

export type Dimension = 'total' | 'model' | 'key' | 'endpoint' | 'policy' | 'code' | 'purpose'

export type Tier = 'minute' | 'hour' | 'day'
export const TIER_MS: Readonly<Record<Tier, number>> = { minute: 60_000, hour: 3_600_000, day: 86_400_000 }

/** `tenantId` of the cells of everybody. */
export const EVERYBODY = '*'

export interface Cell {
  readonly tier: Tier
  readonly dimension: Dimension
  readonly tenantId: string
  readonly bucketMs: number
  readonly name: string
  readonly model: string
  readonly sums: number[]
  readonly latency: Bins
  readonly ttft: Bins
}

/** The cells of one tier: by bucket, by tenant, by what else names them. */
type Cells = Map<number, Map<string, Map<string, Cell>>>

const within = <Key, Inner>(outer: Map<Key, Map<string, Inner>>, key: Key): Map<string, Inner> => {
  const held = outer.get(key)
  if (held !== undefined) return held
  const made = new Map<string, Inner>()
  outer.set(key, made)
  return made
}

/** What names a cell in its bucket and tenant. Names hold no NUL. */
const keyOf = (dimension: Dimension, name: string, model: string): string => `${dimension}\0${name}\0${model}`

/** What one outcome adds to each of its cells, times `sign`. */
interface Share {
  readonly sums: readonly number[]
  readonly latencyBin: number
  readonly ttftBin: number
  readonly sign: 1 | -1
}

const NONE = -1

const addShare = ({ sums, latency, ttft }: Cell, share: Share): void => {
  for (let at = 0; at < sums.length; at++) sums[at]! += share.sums[at]!
  if (share.latencyBin !== NONE) addBin(latency, share.latencyBin, share.sign)
  if (share.ttftBin !== NONE) addBin(ttft, share.ttftBin, share.sign)
}

/** The cells of one bucket and tenant, made as they are needed. */
const cellsAt = (cells: Cells, tier: Tier, bucketMs: number, tenantId: string) => {
  const named = within(within(cells, bucketMs), tenantId)
  return {
    add(dimension: Dimension, name: string, model: string, share: Share): void {
      const key = keyOf(dimension, name, model)
      const held = named.get(key)
      if (held !== undefined) addShare(held, share)
      else {
        const { latencyBin, ttftBin, sign, sums } = share
        const latency = latencyBin === NONE ? [] : [latencyBin, sign]
        const ttft = ttftBin === NONE ? [] : [ttftBin, sign]
        named.set(key, { tier, dimension, tenantId, bucketMs, name, model, sums: [...sums], latency, ttft })
      }
    },
  }
}

const wasCalled = ({ outcome }: AttemptSummary): boolean => outcome !== 'skipped'
const hasFailed = ({ outcome }: AttemptSummary): boolean => outcome === 'error' || outcome === 'interrupted'

/** Refusals take no time, and how long an orphan took nobody knows: neither says how fast a provider is. */
const isTimed = ({ outcome }: UsageFacts): boolean => outcome !== 'denied' && outcome !== 'orphaned'

const shareOf = (facts: UsageFacts, sign: 1 | -1): Share => {
  const { outcome, attempts } = facts
  const is = (value: boolean): number => (value ? sign : 0)
  const called = attempts.filter(wasCalled)
  return {
    sign,
    latencyBin: isTimed(facts) ? binOf(facts.latency_ms) : NONE,
    ttftBin: isTimed(facts) && facts.ttft_ms !== null ? binOf(facts.ttft_ms) : NONE,
    sums: [
      sign,
      is(outcome === 'error'),
      is(outcome === 'interrupted'),
      is(outcome === 'denied'),
      is(outcome === 'orphaned'),
      is(outcome === 'canceled'),
      is(facts.cache_hit),
      is(facts.fallback_used),
      is(facts.cost_nano_usd === null && called.length > 0),
      sign * called.length,
      sign * called.filter(hasFailed).length,
      sign * (facts.prompt_tokens ?? 0),
      sign * (facts.completion_tokens ?? 0),
      sign * (facts.cached_prompt_tokens ?? 0),
      sign * (facts.reasoning_tokens ?? 0),
      sign * (facts.cost_nano_usd ?? 0),
      ...billed(facts).map((value) => sign * value),
    ],
  }
}

interface Counted {
  readonly minute: Cells
  /** Without those that come from `minute`. */
  readonly hour: Cells
}

/** What is counted on its way to the tables. */
export interface Tally extends Counted {
  /** What days count besides: less, where a closed day has an outcome in it already. */
  readonly days: Counted
}

const newCounted = (): Counted => ({ minute: new Map(), hour: new Map() })
export const newTally = (): Tally => ({ ...newCounted(), days: newCounted() })

const startOf = (ms: number, tier: Tier): number => Math.floor(ms / TIER_MS[tier]) * TIER_MS[tier]
const nameOf = (text: string | null): string => (text === null ? '' : storableText(text))

/** Adds an outcome, or with -1 takes one back. */
export const count = (tally: Counted, facts: UsageFacts, sign: 1 | -1 = 1): void => {
  const share = shareOf(facts, sign)
  const tenant = nameOf(facts.tenant_id)
  const minute = startOf(facts.at_ms, 'minute')
  const hour = startOf(facts.at_ms, 'hour')
  const elsewhere = attemptsElsewhere(facts, sign)
  const own = elsewhere.length === 0 ? share : { ...share, sums: without(share.sums, elsewhere) }
  const provider = nameOf(facts.provider)
  const model = nameOf(facts.routed_model)
  for (const whose of [tenant, EVERYBODY]) {
    const cells = cellsAt(tally.minute, 'minute', minute, whose)
    cells.add('total', '', '', share)
    cells.add('model', provider, model, own)
    for (const other of elsewhere) cells.add('model', other.provider, other.model, other)
  }
  const cells = cellsAt(tally.hour, 'hour', hour, tenant)
  const by = (dimension: Dimension, name: string | null) => {
    if (name !== null) cells.add(dimension, nameOf(name), '', share)
  }
  by('key', facts.key_id)
  by('code', facts.error_code)
  by('purpose', facts.purpose ?? null)
  // What a refused request names need not exist: clients would decide how many rows there are.
  if (facts.outcome === 'denied') return
  by('endpoint', facts.endpoint)
  by('policy', facts.policy_id)
}

const without = (sums: readonly number[], others: readonly Share[]): readonly number[] =>
  others.reduce((left, other) => left.map((sum, at) => sum - other.sums[at]!), sums)

/** Attempts at another provider or model than the one that ended it: what each of them cost is booked there. */
const attemptsElsewhere = (facts: UsageFacts, sign: 1 | -1): (Share & { provider: string; model: string })[] => {
  if (facts.attempts.length < 2) return []
  return facts.attempts
    .filter(
      (attempt) => wasCalled(attempt) && !(attempt.provider === facts.provider && attempt.model === facts.routed_model),
    )
    .map((attempt) => {
      const sums = new Array<number>(SUMS.length).fill(0)
      sums[ATTEMPTS] = sign
      sums[FAILED_ATTEMPTS] = hasFailed(attempt) ? sign : 0
      sums[COST] = sign * (attempt.cost_nano_usd ?? 0)
      for (const [at, value] of billedOf(facts, attempt).entries()) sums[FIRST_BILLED + at] = sign * value
      return {
        sums,
        sign,
        latencyBin: NONE,
        ttftBin: NONE,
        provider: nameOf(attempt.provider),
        model: nameOf(attempt.model),
      }
    })
}

/** Every tier of what was counted; minutes before `minutesFromMs` are left out. */
export const cellsOf = (tally: Tally, minutesFromMs: number): readonly Cell[] => {
  const hours = hoursOf(tally)
  const days: Cells = new Map()
  rollUp(hours, 'day', days)
  rollUp(hoursOf(tally.days), 'day', days)
  const minutes = [...cellsIn(tally.minute)].filter(({ bucketMs }) => bucketMs >= minutesFromMs)
  // A closed day that has all of it stays as it is.
  return [...minutes, ...cellsIn(hours), ...[...cellsIn(days)].filter(isSomething)]
}

function* cellsIn(cells: Cells): Generator<Cell> {
  for (const tenants of cells.values()) for (const named of tenants.values()) yield* named.values()
}

const hoursOf = ({ minute, hour }: Counted): Cells => {
  const hours: Cells = new Map()
  rollUp(minute, 'hour', hours)
  rollUp(hour, 'hour', hours)
  return hours
}

const isNot0 = (value: number): boolean => value !== 0
const isSomething = ({ sums, latency, ttft }: Cell): boolean =>
  sums.some(isNot0) || latency.length > 0 || ttft.length > 0

/** Adds cells to those of a coarser tier. */
const rollUp = (cells: Cells, tier: Tier, into: Cells): void => {
  for (const [finerMs, tenants] of cells) {
    const bucketMs = startOf(finerMs, tier)
    const bucket = within(into, bucketMs)
    for (const [tenantId, named] of tenants) {
      const coarser = within(bucket, tenantId)
      for (const [key, cell] of named) {
        const held = coarser.get(key)
        if (held === undefined) coarser.set(key, copyOf(cell, tier, bucketMs))
        else addCell(held, cell)
      }
    }
  }
}

const copyOf = (cell: Cell, tier: Tier, bucketMs: number): Cell => {
  const { dimension, tenantId, name, model, sums, latency, ttft } = cell
  return {
    tier,
    dimension,
    tenantId,
    bucketMs,
    name,
    model,
    sums: sums.slice(),
    latency: latency.slice(),
    ttft: ttft.slice(),
  }
}

const addCell = (held: Cell, { sums, latency, ttft }: Cell): void => {
  for (let at = 0; at < sums.length; at++) held.sums[at]! += sums[at]!
  addBins(held.latency, latency)
  addBins(held.ttft, ttft)
}
