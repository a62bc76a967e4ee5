// That a write with an `Idempotency-Key` found everything as it asked for: the only event of such a decision. It changes no row; the decision exists for its cause,
// so that every instance knows the key for 24 h, and a repeat gets the first answer although others have changed the row since.
import { type Static, t } from '../lib/schema/schema.ts'
import type { ControlReader, TableName } from './control.ts'
import { type Aggregate, eventType } from './kernel/aggregate.ts'
import type { EventRecord } from './kernel/decision.ts'
import { Id, Nullable, opened } from './kernel/fields.ts'
import type { RowChange } from './kernel/tables.ts'

/** The tables whose rows are written by id through the API. */
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

/** The event that says so of this row; null for a row that no table holds: then there is nothing that a repeat could be answered with. */
export const unchangedWrite = (state: ControlReader, row: { readonly id?: string } | undefined): EventRecord | null => {
  const id = row?.id
  if (id === undefined) return null
  const table = WRITTEN_TABLES.find((name) => state.table(name).get(id) !== undefined)
  if (table === undefined) return null
  const owner = table === 'tenants' ? id : ((row as { tenant_id?: string | null }).tenant_id ?? null)
  return { type: TYPE, data: { id, table, tenant_id: owner } satisfies WriteUnchanged }
}

/** The rows that a repeat is answered with, as they stand now. */
export const confirmedRows = (state: ControlReader, events: readonly EventRecord[]): RowChange[] =>
  events.flatMap(({ type, data }) => {
    if (type !== TYPE) return []
    const { table: name, id } = data as WriteUnchanged
    const table = WRITTEN_TABLES.find((each) => each === name)
    const after = table === undefined ? undefined : state.table(table).get(id)
    return after === undefined ? [] : [{ table: name, id, before: null, after }]
  })
