// Rows that were removed and that settings may list: a start must not bring back what was deleted through the API. By
// the name that identifies a row in its table, in two sorts, so that rows of the API cannot push out those of the
// settings; of each sort the newest ones.
import { tenant } from './access/tenant.ts'
import { budget } from './budgets/budget.ts'
import type { ControlReader } from './control.ts'
import type { EventRecord } from './kernel/decision.ts'
import { canonicalJson, type RowChange } from './kernel/tables.ts'
import { model } from './registry/model.ts'
import type { PriceCorrectionRow } from './registry/price-correction.ts'
import { provider } from './registry/provider.ts'
import { tool } from './registry/tool.ts'
import { toolPolicy } from './registry/tool-policy.ts'
import { cacheRule } from './steering/cache-rule.ts'
import { endpoint } from './steering/endpoint.ts'
import { policy } from './steering/policy.ts'

/** A row of this name was there. Its id is the table and the name. */
export interface RemovedRow {
  /** False: it was made anew by the settings. */
  readonly removed: boolean
  /** The settings made it anew, which they do once. */
  readonly recreated: boolean
}

export const REMOVED_ROWS = ['removed_seeded_rows', 'removed_rows'] as const
/** A bound of what every instance holds in memory, of each sort. */
export const MOST_REMOVED = 10_000

type KeyOf = (row: never) => string | readonly string[] | null
const correctionKey = ({ provider: of, model: name, from, to, reason, ...row }: PriceCorrectionRow): string =>
  canonicalJson([
    ...[of, name, from, to, reason],
    ...[row.input_cost_per_million, row.output_cost_per_million, row.cached_input_cost_per_million],
  ])

/** Tables of `bootstrap:`, with what identifies a row in them. */
const KEYS: Readonly<Record<string, KeyOf>> = {
  tenants: tenant.indexes.slug!,
  providers: provider.indexes.name!,
  models: model.indexes.natural!,
  policies: policy.indexes.name!,
  endpoints: endpoint.indexes.slug!,
  budgets: budget.indexes.identity!,
  cache_rules: cacheRule.indexes.name!,
  tools: tool.indexes.name!,
  tool_policies: toolPolicy.indexes.name!,
  price_corrections: correctionKey,
}

/** The event by which a row of a table is made; its data has the fields of the row. */
const MADE_BY: Readonly<Record<string, string>> = {
  'tenant.created': 'tenants',
  'provider.created': 'providers',
  'model.created': 'models',
  'policy.created': 'policies',
  'endpoint.created': 'endpoints',
  'budget.created': 'budgets',
  'cache_rule.created': 'cache_rules',
  'tool.registered': 'tools',
  'tool_policy.created': 'tool_policies',
  'price.corrected': 'price_corrections',
}

interface Owned {
  readonly managed_by?: string
  readonly tenant_id?: string | null
  readonly provider_id?: string
}

const idOf = (table: string, row: unknown): string => `${table}\0${KEYS[table]!(row as never)}`

/** The tenant of the installation itself is made by every start. */
const isAlwaysMade = (table: string, row: unknown): boolean =>
  table === 'tenants' && (row as { readonly slug?: string }).slug === 'default'

/** Whether the row fell with its tenant or its provider: another one of the name has another id. */
const fellWithOwner = ({ tenant_id, provider_id }: Owned, gone: ReadonlySet<string>): boolean =>
  (tenant_id != null && gone.has(tenant_id)) || (provider_id !== undefined && gone.has(provider_id))

const standing = (
  state: ControlReader,
  id: string,
): readonly [table: (typeof REMOVED_ROWS)[number], row: RemovedRow] | null => {
  for (const table of REMOVED_ROWS) {
    const row = state.table(table).get(id)
    if (row !== undefined) return [table, row]
  }
  return null
}

/** The changes of the two tables that follow from the changes of a decision, oldest first. */
export const recordRemoved = (state: ControlReader, changes: readonly RowChange[]): readonly RowChange[] => {
  const moved = changes.filter(
    ({ table, before, after }) => KEYS[table] !== undefined && (before === null) !== (after === null),
  )
  if (moved.length === 0) return moved
  const gone = new Set(moved.filter(({ after }) => after === null).map(({ id }) => id))
  /** The last movement of each name counts. */
  const last = new Map(moved.map((change) => [idOf(change.table, change.before ?? change.after), change]))
  const noted: RowChange[] = []
  const added = new Map<string, number>()
  for (const [id, { table: of, before, after }] of last) {
    if (isAlwaysMade(of, before ?? after)) continue
    const known = standing(state, id)
    const row = (before ?? after) as Owned
    const isSeeded = row.managed_by === 'bootstrap'
    if (after === null) {
      if (fellWithOwner(row, gone)) continue
      const next = { removed: true, recreated: known?.[1].recreated ?? false }
      const table = known?.[0] ?? (isSeeded ? 'removed_seeded_rows' : 'removed_rows')
      if (known === null) added.set(table, (added.get(table) ?? 0) + 1)
      noted.push({ table, id, before: known?.[1] ?? null, after: next })
    } else if (known !== null) {
      const next = isSeeded ? { removed: false, recreated: true } : null
      noted.push({ table: known[0], id, before: known[1], after: next })
    }
  }
  const dropped = REMOVED_ROWS.flatMap((table) =>
    oldest(state, table, state.table(table).size + (added.get(table) ?? 0) - MOST_REMOVED, noted),
  )
  return [...dropped, ...noted]
}

/** Rows keep the order of their decisions. */
const oldest = (
  state: ControlReader,
  table: (typeof REMOVED_ROWS)[number],
  count: number,
  noted: readonly RowChange[],
): RowChange[] => {
  const gone: RowChange[] = []
  if (count <= 0) return gone
  for (const [id, row] of state.table(table).rows()) {
    if (noted.some((change) => change.id === id)) continue
    gone.push({ table, id, before: row, after: null })
    if (gone.length === count) break
  }
  return gone
}

/** The row that an event would make anew although it was removed; null: it makes none of those. */
export const removedBefore = (
  state: ControlReader,
  { type, data }: EventRecord,
): { readonly table: string; readonly row: RemovedRow } | null => {
  const table = MADE_BY[type]
  if (table === undefined) return null
  const row = standing(state, idOf(table, data))?.[1]
  return row?.removed === true ? { table, row } : null
}
