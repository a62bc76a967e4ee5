// The control state as the audit needs it: every table but the causes of idempotent repeats. Saved in Postgres at an
// interval.
import { ControlState, FOLD_VERSION } from '../../src/domain/control.ts'
import type { Sql } from '../database.ts'
import type { Build } from '../projection.ts'

export interface SavedState {
  readonly state: ControlState
  readonly next: number
  readonly logAtMs: number
  readonly tip: string
}

/** The newest checkpoint that is not beyond an offset, or null. One of another fold version is not used. */
export const loadCheckpoint = async (sql: Sql, { schemaName }: Build, upTo: number): Promise<SavedState | null> => {
  const [row] = await sql<{ next: number; logAtMs: number; tip: string; state: Uint8Array }[]>`
    select next_offset as next, log_at_ms as "logAtMs", tip, state from ${sql(`${schemaName}.checkpoint`)}
    where next_offset <= ${upTo} and fold_version = ${FOLD_VERSION}`
  if (row === undefined) return null
  const tables = JSON.parse(new TextDecoder().decode(Bun.gunzipSync(new Uint8Array(row.state)))) as Saved
  const state = new ControlState()
  for (const [table, rows] of tables) state.apply(rows.map(([id, after]) => ({ table, id, before: null, after })))
  return { state, next: row.next, logAtMs: row.logAtMs, tip: row.tip }
}

type Saved = [table: string, rows: [id: string, row: unknown][]][]

export const saveCheckpoint = async (sql: Sql, { schemaName }: Build, saved: SavedState): Promise<void> => {
  const tables: Saved = [...saved.state.tables()].map(({ name }) => [name, [...saved.state.raw(name).rows()]])
  const bytes = Buffer.from(Bun.gzipSync(JSON.stringify(tables)))
  await sql`
    insert into ${sql(`${schemaName}.checkpoint`)} as held (id, next_offset, log_at_ms, tip, fold_version, state)
    values (1, ${saved.next}, ${saved.logAtMs}, ${saved.tip}, ${FOLD_VERSION}, ${bytes})
    on conflict (id) do update set next_offset = excluded.next_offset, log_at_ms = excluded.log_at_ms,
      tip = excluded.tip,
      fold_version = excluded.fold_version, state = excluded.state
    where held.next_offset < excluded.next_offset or held.fold_version <> excluded.fold_version`
}
