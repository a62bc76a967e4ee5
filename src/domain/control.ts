// The whole control state: every aggregate's table, and what one counted decision does to them.
import { type TSchema, type TypeCheck, TypeCompiler } from '../lib/schema.ts'
import type { Aggregate, Meta } from './aggregate.ts'
import { type ApiKeyRow, apiKey } from './api-key.ts'
import { type BudgetRow, budget } from './budget.ts'
import { type CacheRuleRow, cacheRule } from './cache-rule.ts'
import { CHAIN_ROW, type ChainRow, chain } from './chain.ts'
import type { Decision, EventRecord } from './decision.ts'
import { type EndpointRow, endpoint } from './endpoint.ts'
import { type ModelRow, model } from './model.ts'
import { type OperatorRow, operator } from './operator.ts'
import { type OverrideRow, override } from './override.ts'
import { PackedTable } from './packed-table.ts'
import { type PolicyRow, policy } from './policy.ts'
import { type PriceCorrectionRow, priceCorrection } from './price-correction.ts'
import { type ProviderRow, provider } from './provider.ts'
import { type ProviderTestRow, providerTest } from './provider-test.ts'
import { reversal } from './reversal.ts'
import { type SessionRow, session } from './session.ts'
import { type SetupRow, setup } from './setup.ts'
import { type RowChange, RowSetDigest, type StoredTable, Table, type TableReader } from './tables.ts'
import { type TenantRow, tenant } from './tenant.ts'
import { type ToolRow, tool } from './tool.ts'
import { type ToolPolicyRow, toolPolicy } from './tool-policy.ts'
import { confirmedRows, unchanged } from './unchanged.ts'
import { renewed } from './upcasters.ts'

/** Raised whenever a fold of the same log would give another state: snapshots of another version are not used. */
export const FOLD_VERSION = 2

/** A repeated `Idempotency-Key` is remembered this long, in log time. */
export const CAUSE_KEPT_MS = 86_400_000

/** What an idempotent repeat is answered with. `changes` without `before`, at most 8 of them: handlers need the row they made. */
export interface CauseRow {
  readonly body: string
  readonly revision: string
  readonly logAtMs: number
  readonly changes: readonly RowChange[]
  /** Rows removed, by table: `keys_removed`, `models_removed`. */
  readonly removed: Readonly<Record<string, number>>
}

export interface Rows {
  chain: ChainRow
  tenants: TenantRow
  keys: ApiKeyRow
  providers: ProviderRow
  models: ModelRow
  tests: ProviderTestRow
  policies: PolicyRow
  endpoints: EndpointRow
  overrides: OverrideRow
  budgets: BudgetRow
  cache_rules: CacheRuleRow
  tools: ToolRow
  tool_policies: ToolPolicyRow
  price_corrections: PriceCorrectionRow
  setup: SetupRow
  operators: OperatorRow
  sessions: SessionRow
  causes: CauseRow
}
export type TableName = keyof Rows

export interface ControlReader {
  table<Name extends TableName>(name: Name): TableReader<Rows[Name]>
}

// Rows differ per aggregate; the registry only needs what they share.
const AGGREGATES = [
  chain,
  tenant,
  apiKey,
  provider,
  model,
  providerTest,
  policy,
  endpoint,
  override,
  budget,
  cacheRule,
  tool,
  toolPolicy,
  priceCorrection,
  setup,
  operator,
  session,
  reversal,
  unchanged,
] as unknown as readonly Aggregate<unknown, ControlReader>[]

/** Every event type that this build knows, with its schema and audit names. */
export const CONTROL_EVENTS = Object.assign({}, ...AGGREGATES.map(({ events }) => events)) as Aggregate<
  unknown,
  ControlReader
>['events']

const owners = new Map(
  AGGREGATES.flatMap((aggregate) => Object.keys(aggregate.events).map((type) => [type, aggregate] as const)),
)
const checks = new Map<string, TypeCheck<TSchema>>()

/** Whether the data of an event of a known type is what its schema says. Checked when written and when read. */
export const eventIsValid = ({ type, data }: EventRecord): boolean => {
  const schema = CONTROL_EVENTS[type]?.schema
  if (schema === undefined) return false
  let check = checks.get(type)
  if (check === undefined) {
    check = TypeCompiler.Compile(schema)
    checks.set(type, check)
  }
  return check.Check(data)
}

export class ControlState implements ControlReader {
  readonly #tables = new Map<string, StoredTable<unknown>>()
  readonly #digest: RowSetDigest | null

  /**
   * An empty state, or an overlay: it reads through to its parent and keeps its own writes. Overlays have no digest. `digest`: the one that the
   * state will have once the rows of a snapshot were put back (`restore`), whose MAC vouches for it.
   */
  constructor(
    readonly parent: ControlReader | null = null,
    digest?: string,
  ) {
    this.#digest = parent === null ? new RowSetDigest(digest) : null
    const below = (name: string): TableReader<unknown> | null => parent?.table(name as TableName) ?? null
    for (const { table, indexes, packing } of AGGREGATES) {
      const packed = packing !== undefined && parent === null
      this.#tables.set(
        table,
        packed ? new PackedTable<object>(table, indexes, packing) : new Table(table, indexes, below(table)),
      )
    }
    this.#tables.set('causes', new Table<unknown>('causes', {}, below('causes')))
  }

  table<Name extends TableName>(name: Name): TableReader<Rows[Name]> {
    return this.#tables.get(name) as unknown as TableReader<Rows[Name]>
  }

  raw(name: string): StoredTable<unknown> {
    return this.#tables.get(name)!
  }

  tables(): IterableIterator<StoredTable<unknown>> {
    return this.#tables.values()
  }

  apply(changes: readonly RowChange[]): void {
    for (const { table, id, before, after } of changes) {
      if (before !== null) this.#digest?.toggle(table, id, before)
      if (after !== null) this.#digest?.toggle(table, id, after)
      this.#tables.get(table)!.set(id, after)
    }
  }

  /** Puts back a row of a snapshot, without the digest of each. */
  restore(table: string, id: string, row: unknown): void {
    this.#tables.get(table)!.set(id, row)
  }

  /** 64 hex digits: equal states have equal digests, whatever way they came about. */
  digest(): string {
    if (this.#digest === null) throw new Error('an overlay has no digest')
    return this.#digest.hex()
  }
}

/** Whether an event type may be written: later-added ones wait until all live instances know them. */
export const eventIsActive = (state: ControlReader, type: string): boolean => {
  const since = CONTROL_EVENTS[type]?.since ?? 1
  return since <= (state.table('chain').get(CHAIN_ROW)?.schema_version ?? 1)
}

/** The newest event version that this build knows. */
export const EVENT_VERSION = Math.max(...Object.values(CONTROL_EVENTS).map(({ since = 1 }) => since))

export interface Folded {
  readonly changes: readonly RowChange[]
  /** Event types that this build does not know: the instance refuses writes and reports itself degraded. */
  readonly unknownTypes: readonly string[]
  /** Ids of what those events are about (`id`, else `provider_id`, as everywhere): refused by the hot indexes, since what happened to them is not known. */
  readonly unknownSubjects: readonly string[]
  /** Why the decision changed nothing although it counts: an event that its schema refuses. */
  readonly malformed: string | null
}

/** What a counted decision does to the state, applied. All of its events or, when one is malformed, none. Total and deterministic. */
export const foldDecision = (state: ControlState, counted: Decision, id: string, logAtMs: number): Folded => {
  const decision = renewed(counted)
  const meta: Meta = { revision: id, at: decision.at, logAtMs, actor: decision.actor }
  const unknown: EventRecord[] = []
  for (const event of decision.events) {
    if (!owners.has(event.type)) unknown.push(event)
    else if (!eventIsValid(event)) return malformed(`${event.type} does not match its schema`)
  }
  const changes: RowChange[] = []
  const take = (more: RowChange[]) => {
    state.apply(more)
    changes.push(...more)
  }
  try {
    for (const event of decision.events) {
      const owner = owners.get(event.type)
      if (owner !== undefined) take(owner.evolve(state, event, meta))
    }
  } catch (error) {
    // A fault in an `evolve` must not leave half a decision behind, nor end the fold of every instance.
    state.apply(
      changes.toReversed().map(({ table, id, before, after }) => ({ table, id, before: after, after: before })),
    )
    return malformed(`could not be applied: ${error instanceof Error ? error.message : String(error)}`)
  }
  const effect = [...changes]
  take(expiredCauses(state, logAtMs))
  if (decision.cause !== null) {
    const told = [...effect, ...confirmedRows(state, decision.events)]
    take(rememberCause(state, decision.cause, id, logAtMs, told))
  }
  const unknownSubjects = unknown
    .map(({ data }) => data.id ?? data.provider_id)
    .filter((subject) => typeof subject === 'string')
  return { changes: effect, unknownTypes: unknown.map(({ type }) => type), unknownSubjects, malformed: null }
}

const malformed = (reason: string): Folded => ({
  changes: [],
  unknownTypes: [],
  unknownSubjects: [],
  malformed: reason,
})

const expiredCauses = (state: ControlState, logAtMs: number): RowChange[] => {
  const expired: RowChange[] = []
  for (const [id, row] of state.table('causes').rows()) {
    if (row.logAtMs > logAtMs - CAUSE_KEPT_MS || expired.length === 16) break // oldest first: rows keep the order of their decisions
    expired.push({ table: 'causes', id, before: row, after: null })
  }
  return expired
}

const rememberCause = (
  state: ControlState,
  cause: { id: string; body: string },
  revision: string,
  logAtMs: number,
  changes: RowChange[],
): RowChange[] => {
  const removed: Record<string, number> = {}
  for (const { table, after } of changes) if (after === null) removed[table] = (removed[table] ?? 0) + 1
  const row: CauseRow = {
    body: cause.body,
    revision,
    logAtMs,
    changes: changes.slice(0, 8).map((change) => ({ ...change, before: null })),
    removed,
  }
  const before = state.table('causes').get(cause.id) ?? null
  return [
    ...(before === null ? [] : [{ table: 'causes', id: cause.id, before, after: null }]), // re-inserted at the end: the order is that of log time
    { table: 'causes', id: cause.id, before: null, after: row },
  ]
}
