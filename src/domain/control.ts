// The whole control state: every aggregate's table, and the effect of one counted decision on them.
import { type TSchema, type TypeCheck, TypeCompiler } from '../lib/schema/schema.ts'
import { type ApiKeyRow, apiKey } from './access/api-key.ts'
import { type OperatorRow, operator } from './access/operator.ts'
import { RETIRED_TEXTS, type RetiredTextRow, recordRetired } from './access/retired-secrets.ts'
import { type SessionRow, session } from './access/session.ts'
import { type SetupRow, setup } from './access/setup.ts'
import { type TenantRow, tenant } from './access/tenant.ts'
import { type BudgetRow, budget } from './budgets/budget.ts'
import { LIMITS_HEIGHT_SINCE, RETIRED_IN_PARTS_SINCE } from './budgets/budget-events.ts'
import { type RetirementRow, retirement } from './budgets/retirement.ts'
import { type CauseRow, dropExpiredCauses, recordCause } from './cause.ts'
import { CHAIN_ROW, type ChainRow, chain } from './chain.ts'
import type { Aggregate, Meta } from './kernel/aggregate.ts'
import type { Decision, EventRecord } from './kernel/decision.ts'
import { PackedTable } from './kernel/packed-table.ts'
import { type RowChange, RowSetDigest, type StoredTable, Table, type TableReader } from './kernel/tables.ts'
import { renewed } from './kernel/upcasters.ts'
import { type ModelRow, model } from './registry/model.ts'
import { type PriceCorrectionRow, priceCorrection } from './registry/price-correction.ts'
import { type ProviderRow, provider } from './registry/provider.ts'
import { type ProviderTestRow, providerTest } from './registry/provider-test.ts'
import { type ToolRow, tool } from './registry/tool.ts'
import { type ToolPolicyRow, toolPolicy } from './registry/tool-policy.ts'
import { REMOVED_ROWS, type RemovedRow, recordRemoved } from './removed-rows.ts'
import { reversal } from './reversal.ts'
import { type CacheRuleRow, cacheRule } from './steering/cache-rule.ts'
import { type EndpointRow, endpoint } from './steering/endpoint.ts'
import { override } from './steering/override.ts'
import type { OverrideRow } from './steering/override-row.ts'
import { type PolicyRow, policy } from './steering/policy.ts'
import { confirmedRows, unchanged } from './unchanged.ts'

/** Raised whenever a fold of the same log would give another state: snapshots of another version are not used. */
export const FOLD_VERSION = 10

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
  retirements: RetirementRow
  setup: SetupRow
  operators: OperatorRow
  sessions: SessionRow
  causes: CauseRow
  retired_seeded_texts: RetiredTextRow
  retired_texts: RetiredTextRow
  removed_seeded_rows: RemovedRow
  removed_rows: RemovedRow
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
  retirement,
  setup,
  operator,
  session,
  reversal,
  unchanged,
] as unknown as readonly Aggregate<unknown, ControlReader>[]

/** Every event type of this build, with its schema and audit names. */
export const CONTROL_EVENTS = Object.assign({}, ...AGGREGATES.map(({ events }) => events)) as Aggregate<
  unknown,
  ControlReader
>['events']

interface KnownEvent {
  readonly owner: Aggregate<unknown, ControlReader>
  readonly schema: TSchema
  /** Compiled on first use. */
  check: TypeCheck<TSchema> | null
}

const eventTypes = new Map<string, KnownEvent>(
  AGGREGATES.flatMap((owner) =>
    Object.entries(owner.events).map(([type, { schema }]) => [type, { owner, schema, check: null }] as const),
  ),
)

const fits = (event: KnownEvent, data: EventRecord['data']): boolean => {
  event.check ??= TypeCompiler.Compile(event.schema)
  return event.check.Check(data)
}

/** Whether the data of an event of a known type matches its schema. Checked when written and when read. */
export const eventIsValid = ({ type, data }: EventRecord): boolean => {
  const event = eventTypes.get(type)
  return event !== undefined && fits(event, data)
}

/** Number of rows whose digest is computed in one step; a step takes about a millisecond. */
const STEP_ROWS = 256

export class ControlState implements ControlReader {
  readonly #tables = new Map<string, StoredTable<unknown>>()
  /**
   * Null: not computed yet. No reader needs it while a log is folded from its start, and most rows change on the way.
   */
  #digest: RowSetDigest | null
  #applied = 0
  /**
   * Log time up to which no cause expires: a search for the oldest one at each decision would take longer than most
   * decisions.
   */
  causesExpireFromMs = 0

  /**
   * An empty state, or an overlay, which reads through to its parent and keeps its own writes. Overlays have no digest.
   * `digest`: the digest that the state has once the rows of a snapshot were restored (`restore`); the MAC of the
   * snapshot covers it.
   */
  constructor(
    readonly parent: ControlReader | null = null,
    digest?: string,
  ) {
    this.#digest = digest === undefined ? null : new RowSetDigest(digest)
    const below = (name: string): TableReader<unknown> | null => parent?.table(name as TableName) ?? null
    for (const { table, indexes, packing } of AGGREGATES) {
      const packed = packing !== undefined && parent === null
      this.#tables.set(
        table,
        packed ? new PackedTable<object>(table, indexes, packing) : new Table(table, indexes, below(table)),
      )
    }
    for (const name of ['causes', ...RETIRED_TEXTS, ...REMOVED_ROWS])
      this.#tables.set(name, new Table<unknown>(name, {}, below(name)))
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
    this.#applied += 1
    for (const { table, id, before, after } of changes) {
      if (before !== null) this.#digest?.toggle(table, id, before)
      if (after !== null) this.#digest?.toggle(table, id, after)
      this.#tables.get(table)!.set(id, after)
    }
  }

  /** Restores a row of a snapshot, without computing its digest. */
  restore(table: string, id: string, row: unknown): void {
    this.#tables.get(table)!.set(id, row)
  }

  /**
   * 64 hex digits: equal states have equal digests, in whatever way they were reached. The first call reads all rows,
   * unless `settle` has.
   */
  digest(): string {
    if (this.#digest === null) for (const _ of this.settle());
    return this.#digest!.hex()
  }

  /**
   * Computes the digest of all rows step by step; from then on each change keeps it up to date. Nothing may be applied
   * between the steps.
   */
  *settle(): IterableIterator<void> {
    if (this.parent !== null) throw new Error('an overlay has no digest')
    if (this.#digest !== null) return
    const [digest, applied] = [new RowSetDigest(), this.#applied]
    let rows = 0
    for (const table of this.#tables.values()) {
      for (const text of table.texts()) {
        digest.toggleText(text)
        if (++rows % STEP_ROWS !== 0) continue
        yield
        if (this.#applied !== applied) throw new Error('the state changed while its digest was computed')
      }
    }
    this.#digest = digest
  }
}

/** Whether an event type may be written: types that were added later wait until all live instances support them. */
export const eventIsActive = (state: ControlReader, type: string): boolean => {
  const since = CONTROL_EVENTS[type]?.since ?? 1
  return since <= (state.table('chain').get(CHAIN_ROW)?.schema_version ?? 1)
}

/**
 * The newest event version of this build, over this topic and over contents of other topics that older builds would
 * misread.
 */
export const EVENT_VERSION = Math.max(
  RETIRED_IN_PARTS_SINCE,
  LIMITS_HEIGHT_SINCE,
  ...Object.values(CONTROL_EVENTS).map(({ since = 1 }) => since),
)

export interface Folded {
  readonly changes: readonly RowChange[]
  /** Event types that this build does not support: the instance refuses writes and reports itself degraded. */
  readonly unknownTypes: readonly string[]
  /**
   * Ids of the subjects of those events (`id`, else `provider_id`): refused by the hot indexes, since the effect of the
   * events is unknown.
   */
  readonly unknownSubjects: readonly string[]
  /** Why the decision changed nothing although it counts: its schema refuses an event. */
  readonly malformed: string | null
}

/**
 * Applies a counted decision to the state: all of its events or, when one is malformed, none. Total and deterministic.
 */
export const foldDecision = (state: ControlState, counted: Decision, id: string, logAtMs: number): Folded => {
  const { at, actor, cause, events } = renewed(counted)
  const meta: Meta = { revision: id, at, logAtMs, actor }
  let unknown: readonly EventRecord[] = NO_EVENTS
  for (const event of events) {
    const type = eventTypes.get(event.type)
    if (type === undefined) unknown = [...unknown, event]
    else if (!fits(type, event.data)) return malformed(`${event.type} does not match its schema`)
  }
  const changes: RowChange[] = []
  try {
    for (const event of events) {
      const more = eventTypes.get(event.type)?.owner.evolve(state, event, meta)
      if (more === undefined) continue
      state.apply(more)
      for (const change of more) changes.push(change)
    }
  } catch (error) {
    // A fault in an `evolve` must not leave half a decision behind, nor end the fold of every instance.
    state.apply(
      changes.toReversed().map(({ table, id, before, after }) => ({ table, id, before: after, after: before })),
    )
    return malformed(`could not be applied: ${error instanceof Error ? error.message : String(error)}`)
  }
  state.apply(recordRetired(state, changes, logAtMs))
  state.apply(recordRemoved(state, changes))
  dropExpiredCauses(state, logAtMs)
  if (cause !== null) {
    const confirmed = confirmedRows(state, events)
    const reported = confirmed.length === 0 ? changes : [...changes, ...confirmed]
    state.apply(recordCause(state, cause, id, logAtMs, reported))
  }
  return {
    changes,
    unknownTypes: typesOf(unknown),
    unknownSubjects: subjectsOf(unknown),
    malformed: null,
  }
}

const NO_EVENTS: readonly EventRecord[] = []
const NONE: readonly string[] = []

const typesOf = (events: readonly EventRecord[]): readonly string[] =>
  events === NO_EVENTS ? NONE : events.map(({ type }) => type)

const subjectsOf = (events: readonly EventRecord[]): readonly string[] =>
  events === NO_EVENTS ? NONE : subjects(events)

const subjects = (events: readonly EventRecord[]): string[] =>
  events.map(({ data }) => data.id ?? data.provider_id).filter((subject) => typeof subject === 'string')

const malformed = (reason: string): Folded => ({
  changes: [],
  unknownTypes: [],
  unknownSubjects: [],
  malformed: reason,
})
