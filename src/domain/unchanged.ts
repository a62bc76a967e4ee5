// A write with an `Idempotency-Key` that had nothing to change: the only event of such a decision. It changes no row;
// the decision exists for its cause, so that every instance has the key for 24 h, and a repeat gets the first result
// although other callers have changed the row since.
import { type Static, t } from '../lib/schema/schema.ts'
import type { ControlReader, TableName } from './control.ts'
import { type Aggregate, eventType } from './kernel/aggregate.ts'
import type { EventRecord } from './kernel/decision.ts'
import { Id, Nullable, opened } from './kernel/fields.ts'
import type { RowChange } from './kernel/tables.ts'

/** Tables whose rows the API writes by id. */
const WRITTEN_TABLES = [
  'tenants',
  'keys',
  'providers',
  'models',
  'policies',
  'endpoints',
  'overrides',
  'budgets',
  'cache_rules',
  'tools',
  'tool_policies',
  'price_corrections',
  'retirements',
  'operators',
] as const satisfies readonly TableName[]

export const WriteUnchanged = t.Object({
  id: Id,
  table: t.String({
    minLength: 1,
    maxLength: 64,
    description: 'The table of the control state that the row stands in.',
  }),
  tenant_id: Nullable(Id, 'The tenant that the row belongs to.'),
})
export type WriteUnchanged = Static<typeof WriteUnchanged>

const TYPE = 'write.unchanged'

export const unchanged: Aggregate<never, ControlReader> = {
  table: 'unchanged_writes',
  indexes: {},
  events: {
    [TYPE]: eventType({
      schema: opened(WriteUnchanged),
      since: 6,
      action: 'confirm',
      resource: 'write',
      subject: ({ id }) => id,
    }),
  },
  evolve: () => [],
}

/**
 * The event that records this for the row; null for a row that no table holds: a repeat then has no result to return.
 */
export const unchangedWrite = (state: ControlReader, row: { readonly id?: string } | undefined): EventRecord | null => {
  const id = row?.id
  if (id === undefined) return null
  const table = WRITTEN_TABLES.find((name) => state.table(name).get(id) !== undefined)
  if (table === undefined) return null
  const owner = table === 'tenants' ? id : ((row as { tenant_id?: string | null }).tenant_id ?? null)
  return { type: TYPE, data: { id, table, tenant_id: owner } satisfies WriteUnchanged }
}

/** The rows that a repeat returns, in their present state. */
export const confirmedRows = (state: ControlReader, events: readonly EventRecord[]): RowChange[] =>
  events.flatMap(({ type, data }) => {
    if (type !== TYPE) return []
    const { table: name, id } = data as WriteUnchanged
    const table = WRITTEN_TABLES.find((each) => each === name)
    const after = table === undefined ? undefined : state.table(table).get(id)
    return after === undefined ? [] : [{ table: name, id, before: null, after }]
  })
