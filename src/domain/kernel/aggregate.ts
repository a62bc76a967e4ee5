// Parts of an aggregate: events (stored for ever), rows, evolve, decide. One file per aggregate; `control.ts` lists
// them.
import type { Static, TSchema } from '../../lib/schema/schema.ts'
import type { Actor, EventRecord } from './decision.ts'
import type { Packing } from './packed-table.ts'
import type { Indexes, RowChange } from './tables.ts'

/**
 * The facts of the surrounding decision that `evolve` may read. It reads nothing else: no clock, no randomness, no
 * environment.
 */
export interface Meta {
  /** Id of the decision: the `revision` of every row that it changes. */
  readonly revision: string
  /** The writer's clock, RFC 3339: `created_at`, `updated_at`. */
  readonly at: string
  /** Log time (running maximum), Unix milliseconds. */
  readonly logAtMs: number
  readonly actor: Actor
}

/** An event type: its schema (type, check and topic contract at once) and its names in the audit. */
export interface EventType<Schema extends TSchema = TSchema> {
  readonly schema: Schema
  /**
   * The event version in which the type appeared (absent: 1). The type stays dormant until `schema.activated` names
   * that version.
   */
  readonly since?: number
  /**
   * Audit action: `create`, `update`, `delete`, `rotate`, `enable`, ... `actionOf` may look at the data (PATCH of
   * `status`).
   */
  readonly action: string | ((data: Static<Schema>) => string)
  /** Audit resource: `tenant`, `api_key`, `credential`, ... */
  readonly resource: string
  /** The id of the event's subject. */
  readonly subject: (data: Static<Schema>) => string
}

/** Audit action of an event that carries the fields that changed: one with `enabled` alone is a switch. */
export const changeAction = (data: { readonly enabled?: boolean }): string => {
  if (data.enabled === undefined || Object.keys(data).some((name) => !SWITCH_FIELDS.has(name))) return 'update'
  return data.enabled ? 'enable' : 'disable'
}
const SWITCH_FIELDS: ReadonlySet<string> = new Set(['id', 'enabled', 'managed_by'])

/**
 * Checks that `action` and `subject` fit the schema, then drops the type of the data: the registry needs only the
 * common members.
 */
export const eventType = <Schema extends TSchema>(type: EventType<Schema>): EventType => type as unknown as EventType

/**
 * `State` is `ControlReader` of control.ts; generic here so that aggregate files and the registry do not import each
 * other in a circle.
 */
export interface Aggregate<Row, State> {
  readonly table: string
  readonly indexes: Indexes<Row>
  /** For a table of very many rows: how they are packed. */
  readonly packing?: Packing
  // Event types differ in their schema; the registry only needs what they share.
  readonly events: Readonly<Record<string, EventType>>
  /** Pure and total: the changes by an event. An event about a row that does not exist changes nothing. */
  evolve(state: State, event: EventRecord, meta: Meta): RowChange[]
}

/** Every row carries these; the API shows them as they are. */
export interface Stamps {
  readonly created_at: string
  readonly updated_at: string
  readonly revision: string
}

/** `created`, `changed` and `removed` rows as changes of one table. */
export const changesOf = <Row extends Stamps>(table: string) => ({
  created: (id: string, row: Omit<Row, keyof Stamps>, meta: Meta): RowChange[] => [
    { table, id, before: null, after: { ...row, created_at: meta.at, updated_at: meta.at, revision: meta.revision } },
  ],
  changed: (id: string, before: Row | undefined, patch: Partial<Row>, meta: Meta): RowChange[] =>
    before === undefined
      ? []
      : [{ table, id, before, after: { ...before, ...patch, updated_at: meta.at, revision: meta.revision } }],
  removed: (id: string, before: Row | undefined): RowChange[] =>
    before === undefined ? [] : [{ table, id, before, after: null }],
})
