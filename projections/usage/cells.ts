// What an outcome adds to usage: sums and histograms by bucket, tenant and dimension. Pure; integers only, so that no
// order matters.
import { addBin, addBins, type Bins } from './histogram.ts'
import { attemptsElsewhere, NONE, nameOf, type Share, shareOf, type UsageFacts, without } from './share.ts'

export type Dimension = 'total' | 'model' | 'key' | 'endpoint' | 'policy' | 'code' | 'purpose'

export type Tier = 'minute' | 'hour' | 'day'
export const TIER_MS: Readonly<Record<Tier, number>> = { minute: 60_000, hour: 3_600_000, day: 86_400_000 }

/** `tenantId` of the cells of all tenants together. */
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

/** The cells of one tier: by bucket, by tenant, by the rest of their key. */
type Cells = Map<number, Map<string, Map<string, Cell>>>

const within = <Key, Inner>(outer: Map<Key, Map<string, Inner>>, key: Key): Map<string, Inner> => {
  const held = outer.get(key)
  if (held !== undefined) return held
  const made = new Map<string, Inner>()
  outer.set(key, made)
  return made
}

/** The key of a cell in its bucket and tenant. Names hold no NUL. */
const keyOf = (dimension: Dimension, name: string, model: string): string => `${dimension}\0${name}\0${model}`

const addShare = ({ sums, latency, ttft }: Cell, share: Share): void => {
  const added = share.sums
  for (let at = 0; at < added.length; at++) {
    const value = added[at]!
    if (value !== 0) sums[at]! += value // half of them are
  }
  if (share.latencyBin !== NONE) addBin(latency, share.latencyBin, share.sign)
  if (share.ttftBin !== NONE) addBin(ttft, share.ttftBin, share.sign)
}

/** The key of a cell in its bucket and tenant. */
interface Named {
  readonly key: string
  readonly dimension: Dimension
  readonly name: string
  readonly model: string
}
const namedOf = (dimension: Dimension, name: string, model: string): Named => ({
  key: keyOf(dimension, name, model),
  dimension,
  name,
  model,
})
const TOTAL = namedOf('total', '', '')

/** The cells of one bucket and tenant, made as they are needed. */
class CellsOfTenant {
  readonly #cells: Map<string, Cell>
  constructor(
    cells: Cells,
    readonly tier: Tier,
    readonly bucketMs: number,
    readonly tenantId: string,
  ) {
    this.#cells = within(within(cells, bucketMs), tenantId)
  }

  add({ key, dimension, name, model }: Named, share: Share): void {
    const held = this.#cells.get(key)
    if (held !== undefined) {
      addShare(held, share)
      return
    }
    const { tier, bucketMs, tenantId } = this
    const { latencyBin, ttftBin, sign } = share
    const latency = latencyBin === NONE ? [] : [latencyBin, sign]
    const ttft = ttftBin === NONE ? [] : [ttftBin, sign]
    const sums = share.sums.slice()
    this.#cells.set(key, { tier, dimension, tenantId, bucketMs, name, model, sums, latency, ttft })
  }
}

interface Counted {
  readonly minute: Cells
  /** Without those that come from `minute`. */
  readonly hour: Cells
}

/** Counts on their way to the tables. */
export interface Tally extends Counted {
  /** What days count besides: less, where a closed day includes an outcome already. */
  readonly days: Counted
}

const newCounted = (): Counted => ({ minute: new Map(), hour: new Map() })
export const newTally = (): Tally => ({ ...newCounted(), days: newCounted() })

const startOf = (ms: number, tier: Tier): number => Math.floor(ms / TIER_MS[tier]) * TIER_MS[tier]

/** Adds an outcome, or with -1 takes one back. */
export const count = (tally: Counted, facts: UsageFacts, sign: 1 | -1 = 1): void => {
  const share = shareOf(facts, sign)
  const tenant = nameOf(facts.tenant_id)
  const minute = startOf(facts.at_ms, 'minute')
  const hour = startOf(facts.at_ms, 'hour')
  const elsewhere = attemptsElsewhere(facts, sign)
  const own = elsewhere.length === 0 ? share : { ...share, sums: without(share.sums, elsewhere) }
  const model = namedOf('model', nameOf(facts.provider), nameOf(facts.routed_model))
  for (const whose of [tenant, EVERYBODY]) {
    const cells = new CellsOfTenant(tally.minute, 'minute', minute, whose)
    cells.add(TOTAL, share)
    cells.add(model, own)
    for (const other of elsewhere) cells.add(namedOf('model', other.provider, other.model), other)
  }
  const cells = new CellsOfTenant(tally.hour, 'hour', hour, tenant)
  const by = (dimension: Dimension, name: string | null) => {
    if (name !== null) cells.add(namedOf(dimension, nameOf(name), ''), share)
  }
  by('key', facts.key_id)
  by('code', facts.error_code)
  by('purpose', facts.purpose ?? null)
  // The names of a refused request need not exist: otherwise clients would decide how many rows there are.
  if (facts.outcome === 'denied') return
  by('endpoint', facts.endpoint)
  by('policy', facts.policy_id)
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
  for (let at = 0; at < sums.length; at++) {
    const value = sums[at]!
    if (value !== 0) held.sums[at]! += value
  }
  addBins(held.latency, latency)
  addBins(held.ttft, ttft)
}
