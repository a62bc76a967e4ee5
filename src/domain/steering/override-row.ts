// Rows of overrides: which of them decide, which are in force, and which are removed as others come.

import type { ControlReader } from '../control.ts'
import { changesOf, type Stamps } from '../kernel/aggregate.ts'
import type { Actor } from '../kernel/decision.ts'
import type { RowChange } from '../kernel/tables.ts'
import type { OverrideValue } from './override-target.ts'

export interface OverrideRow extends Stamps {
  readonly id: string
  readonly kind: string
  readonly target: string
  readonly tenant_id: string | null
  readonly value: OverrideValue | null
  readonly enabled: boolean
  readonly reason: string | null
  /** RFC 3339, null: until it is taken back. Compared at use. */
  readonly expires_at: string | null
  readonly actor: Actor
  /**
   * The tenant of the key that wrote it without `*`. Null: written with `*`, by an operator or by the gateway itself;
   * while it is in force, only callers with `*` write over it. Kept by the fold, not shown.
   */
  readonly writer_tenant_id: string | null
  /** A later row of the same kind, target and tenant decides. Set by the fold, not shown. */
  readonly superseded: boolean
  /**
   * Set on an override from `bootstrap:` that another actor wrote since: the settings do not restore theirs. Kept by
   * the fold, not shown.
   */
  readonly taken_over?: true
}

/**
 * Number of rows without effect that are retained for the list of recent ones; the log and the audit hold all of them.
 */
export const HISTORY_RETAINED = 1_000
/** Number of rows that are retained beside these: those that take back an override from `bootstrap:`. */
export const TAKEN_BACK_RETAINED = 1_000
/** From so many rows in force on, those that expired a day ago (in log time) are removed. */
const SWEPT_FROM = 1_000
const SWEPT_AFTER_MS = 86_400_000
/** Each of these numbers may be exceeded until so many further rows were written. */
export const SWEPT_EVERY = 256
const AT_ONCE = SWEPT_EVERY / 2

/** Index key: of the rows with one key the one that is not superseded decides. */
export const overrideKey = (kind: string, target: string, tenantId: string | null): string =>
  `${kind}\0${target}\0${tenantId ?? ''}`

/** Whether a row that is not superseded is in force at this moment (Unix milliseconds). */
export const isInForce = ({ enabled, expires_at, superseded }: OverrideRow, nowMs: number): boolean =>
  enabled && !superseded && (expires_at === null || Date.parse(expires_at) > nowMs)

/** The row imposes nothing, but without it the next start would impose the override of `bootstrap:` again. */
const isTakenBack = ({ enabled, superseded, taken_over }: OverrideRow): boolean =>
  taken_over === true && !superseded && !enabled

const isHistory = (row: OverrideRow): boolean => (row.superseded || !row.enabled) && !isTakenBack(row)

/** Whether it expired so long ago that it may be removed. */
export const isOver = ({ expires_at, taken_over }: OverrideRow, nowMs: number): boolean =>
  taken_over !== true && expires_at !== null && Date.parse(expires_at) <= nowMs - SWEPT_AFTER_MS

/** Whether it has an effect now, or had one until it expired. */
export const isStanding = (row: OverrideRow): boolean => !isHistory(row) && !isTakenBack(row)

/** The row of exactly this kind, target and tenant that is in force, or null. */
export const inForce = (
  state: ControlReader,
  kind: string,
  target: string,
  tenantId: string | null,
  nowMs: number,
): OverrideRow | null => {
  const overrides = state.table('overrides')
  const [id] = overrides.find('deciding', overrideKey(kind, target, tenantId))
  const row = id === undefined ? undefined : overrides.get(id)
  return row !== undefined && isInForce(row, nowMs) ? row : null
}

const { removed } = changesOf<OverrideRow>('overrides')

/**
 * The rows that are removed when one more row is written, oldest first. Never the row that is superseded now
 * (`before`): it changes in the same step. The search runs once for every `LOOKED_EVERY` further rows and removes
 * `AT_ONCE` or more, so that not every decision walks all rows.
 */
export const evicted = (state: ControlReader, before: OverrideRow | undefined, logAtMs: number): RowChange[] => {
  const overrides = state.table('overrides')
  if ((overrides.size + 1) % SWEPT_EVERY !== 0) return []
  const [history, takenBack, over]: [OverrideRow[], OverrideRow[], OverrideRow[]] = [[], [], []]
  let standing = 0
  for (const [, row] of overrides.rows()) {
    if (row.id === before?.id) continue
    if (isHistory(row)) history.push(row)
    else if (isTakenBack(row)) takenBack.push(row)
    else {
      standing += 1
      if (isOver(row, logAtMs)) over.push(row)
    }
  }
  const surplus = [
    history.slice(0, Math.max(0, history.length - HISTORY_RETAINED)),
    takenBack.slice(0, Math.max(0, takenBack.length - TAKEN_BACK_RETAINED)),
    standing < SWEPT_FROM ? [] : over,
  ]
  return surplus
    .filter(({ length }) => length >= AT_ONCE)
    .flatMap((gone) => gone.flatMap((row) => removed(row.id, row)))
}
