// The results of idempotent repeats: a row for each `Idempotency-Key`, for a day of log time. Every decision drops rows
// that have expired.
import type { ControlState } from './control.ts'
import type { RowChange } from './kernel/tables.ts'

/** A repeated `Idempotency-Key` is recognised this long, in log time. */
export const CAUSE_RETENTION_MS = 86_400_000

/**
 * The result of an idempotent repeat. `changes` without `before`, at most 8 of them, those that left a row first:
 * handlers need the row that the command wrote.
 */
export interface CauseRow {
  readonly body: string
  readonly revision: string
  readonly logAtMs: number
  readonly changes: readonly RowChange[]
  /** Rows removed, by table: `keys_removed`, `models_removed`. */
  readonly removed: Readonly<Record<string, number>>
}

/** Drops rows that have expired, at most 16 of them. */
export const dropExpiredCauses = (state: ControlState, logAtMs: number): void => {
  if (logAtMs < state.causesExpireFromMs) return
  const expired: RowChange[] = []
  // Later rows expire later. Without any row, nothing expires before this time.
  let expiresFromMs = logAtMs + CAUSE_RETENTION_MS
  for (const [id, row] of state.table('causes').rows()) {
    expiresFromMs = row.logAtMs + CAUSE_RETENTION_MS
    if (expiresFromMs > logAtMs || expired.length === 16) break // oldest first: rows keep the order of their decisions
    expired.push({ table: 'causes', id, before: row, after: null })
  }
  state.causesExpireFromMs = expiresFromMs
  state.apply(expired)
}

/** The rows that store the result for a repeat. */
export const recordCause = (
  state: ControlState,
  cause: { id: string; body: string },
  revision: string,
  logAtMs: number,
  changes: readonly RowChange[],
): RowChange[] => {
  const removed: Record<string, number> = {}
  for (const { table, after } of changes) if (after === null) removed[table] = (removed[table] ?? 0) + 1
  const [left, gone] = [changes.filter(({ after }) => after !== null), changes.filter(({ after }) => after === null)]
  const row: CauseRow = {
    body: cause.body,
    revision,
    logAtMs,
    changes: [...left, ...gone].slice(0, 8).map((change) => ({ ...change, before: null })),
    removed,
  }
  const before = state.table('causes').get(cause.id) ?? null
  return [
    // Re-inserted at the end: the order is that of log time.
    ...(before === null ? [] : [{ table: 'causes', id: cause.id, before, after: null }]),
    { table: 'causes', id: cause.id, before: null, after: row },
  ]
}
