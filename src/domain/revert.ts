// Reverting a decision: the events of the ordinary types that restore the rows it changed, decided by the ordinary
// rules, all of them or none.
import type { Granter } from './access/api-key.ts'
import { requireAdministrator } from './access/last-administrator.ts'
import { type ControlReader, ControlState, foldDecision } from './control.ts'
import { INVERSES, type InverseContext } from './inverse.ts'
import { type EventRecord, GENESIS } from './kernel/decision.ts'
import { Rejection } from './kernel/rejection.ts'
import { canonicalJson, type RowChange } from './kernel/tables.ts'

export interface RevertCommand {
  /** Id of the decision to take back. */
  readonly decisionId: string
  /** All of its changes, in order. */
  readonly changes: readonly RowChange[]
  /** The caller that reverts: no key may get more scopes than this one has. */
  readonly granter: Granter
  /** Existing data keys: a secret that was sealed under another one is lost for ever. */
  readonly dataKeyIds: ReadonlySet<string>
  /** Ids for rows of tables that only grow: one for each change. */
  readonly newIds: readonly string[]
  readonly nowMs: number
}

/** Referred-to rows come first; rows that refer to them are removed first. */
// Tables without a rank come after these: their rows refer to rows of these tables.
const RANK = ['tenants', 'providers', 'models', 'policies', 'endpoints', 'keys', 'overrides'] as const
const rankOf = (table: string): number => {
  const rank = RANK.indexOf(table as (typeof RANK)[number])
  return rank === -1 ? RANK.length : rank
}

/** The number of rows that have one: their order. */
const numberOf = ({ before }: RowChange): number => (before as { number?: number } | null)?.number ?? 0

/** First rows that come back (referred-to rows first), then changed rows, then removed rows (referring rows first). */
const inOrder = (changes: readonly RowChange[]): RowChange[] => {
  const stage = ({ before, after }: RowChange) => (after === null ? 0 : before === null ? 2 : 1)
  return changes.toSorted((a, b) => {
    const byStage = stage(a) - stage(b)
    if (byStage !== 0) return byStage
    const byRank = rankOf(a.table) - rankOf(b.table)
    if (byRank !== 0) return stage(a) === 2 ? -byRank : byRank
    return numberOf(a) - numberOf(b)
  })
}

/** The first and the last of each row that a decision changed more than once. */
export const netChanges = (changes: readonly RowChange[]): RowChange[] => {
  const net = new Map<string, RowChange>()
  for (const change of changes) {
    const key = `${change.table}\0${change.id}`
    const earlier = net.get(key)
    net.set(key, earlier === undefined ? change : { ...earlier, after: change.after })
  }
  return [...net.values()].filter(({ before, after }) => before !== null || after !== null)
}

/** The rows that changed since the decision, with their present revision (null: the row is removed). */
export const changedSince = (
  state: ControlReader,
  changes: readonly RowChange[],
): readonly { readonly table: string; readonly id: string; readonly revision: string | null }[] => {
  const since: { table: string; id: string; revision: string | null }[] = []
  for (const change of netChanges(changes)) {
    const { table, id, after } = change
    const inverse = INVERSES[table]
    if (inverse?.standsAlone?.(change) === true) continue
    const now = (state.table(table as 'models').get(id) as { revision?: string } | undefined) ?? null
    if (canonicalJson(now) !== canonicalJson(after)) since.push({ table, id, revision: now?.revision ?? null })
  }
  return since
}

/**
 * The events that take the decision back, `decision.reverted` first. Throws Rejection when a row cannot be restored.
 */
export const decideRevert = (state: ControlReader, command: RevertCommand): EventRecord[] => {
  const { decisionId, granter, dataKeyIds, newIds, nowMs } = command
  const changes = netChanges(command.changes)
  if (changes.length === 0)
    throw new Rejection('conflict', 'the decision changed nothing: there is nothing to take back')
  const since = changedSince(state, changes)
  if (since.length > 0) throw new Rejection('conflict', laterMessage(since, decisionId))
  const overlay = overlayOf(state)
  const events: EventRecord[] = []
  const effect: RowChange[] = []
  for (const [at, change] of inOrder(changes).entries()) {
    const inverse = INVERSES[change.table]
    if (inverse === undefined)
      throw new Rejection('conflict', `what was decided about ${change.table} cannot be taken back`)
    const context: InverseContext = { granter, dataKeyIds, newId: newIds[at]!, nowMs, changes }
    const more = inverted(inverse, overlay, change, context)
    if (more.length === 0) continue
    events.push(...more)
    effect.push(...applied(overlay, more, nowMs))
  }
  if (events.length === 0) throw new Rejection('conflict', 'nothing that it changed can be taken back')
  requireRestored(overlay, changes, effect, decisionId)
  requireAdministrator(state, events, nowMs)
  return [{ type: 'decision.reverted', data: { decision_id: decisionId } }, ...events]
}

/** A violated rule is a conflict with the present rows, not a fault of the request. */
const inverted = (
  inverse: NonNullable<(typeof INVERSES)[string]>,
  state: ControlState,
  change: RowChange,
  context: InverseContext,
): readonly EventRecord[] => {
  try {
    return inverse.invert(state, change, context)
  } catch (error) {
    if (!(error instanceof Rejection) || error.reason === 'conflict') throw error
    const what = change.before === null ? 'removed' : 'restored'
    throw new Rejection('conflict', `${change.table} ${change.id} cannot be ${what}: ${error.message}`)
  }
}

const overlayOf = (state: ControlReader): ControlState => {
  if (!(state instanceof ControlState)) throw new Error('a decision is taken back on a control state')
  return new ControlState(state)
}

const applied = (overlay: ControlState, events: readonly EventRecord[], nowMs: number): readonly RowChange[] => {
  const decision = { parent: GENESIS, at: new Date(nowMs).toISOString(), cause: null, v: 1, events } as const
  const { changes, malformed } = foldDecision(
    overlay,
    { ...decision, actor: { type: 'system', id: 'revert' } },
    GENESIS,
    nowMs,
  )
  if (malformed !== null) throw new Error(`the inverse of a decision is malformed: ${malformed}`)
  return changes
}

/**
 * Time and author of a row are not restored; a row that the API edits is owned by the API. Null and absent mean the
 * same in every row.
 */
const UNRESTORED = new Set(['created_at', 'updated_at', 'revision', 'managed_by'])

const substance = (row: unknown): unknown => {
  if (row === null || typeof row !== 'object' || Array.isArray(row)) return row
  return Object.fromEntries(
    Object.entries(row)
      .filter(([name, member]) => !UNRESTORED.has(name) && member !== null)
      .map(([name, member]) => [name, substance(member)]),
  )
}

/** Checks that only the rows of the decision changed, and that each is as it was. */
const requireRestored = (
  overlay: ControlState,
  changes: readonly RowChange[],
  effect: readonly RowChange[],
  decisionId: string,
): void => {
  const own = new Set(changes.map(({ table, id }) => `${table}\0${id}`))
  for (const each of effect) {
    const { table, id, before } = each
    if (own.has(`${table}\0${id}`) || INVERSES[table]?.harmless?.(each) === true) continue
    const revision = (before as { revision?: string } | null)?.revision ?? null
    throw new Rejection('conflict', laterMessage([{ table, id, revision }], decisionId))
  }
  for (const change of changes) {
    const { table, id, before } = change
    const inverse = INVERSES[table]
    if (inverse?.harmless !== undefined) continue
    const now = overlay.raw(table).get(id) ?? null
    const wanted = inverse?.restored === undefined ? before : inverse.restored(change, now)
    if (canonicalJson(substance(now)) !== canonicalJson(substance(wanted))) {
      throw new Rejection('conflict', `${table} ${id} would not be again what it was: change it by hand`)
    }
  }
}

const laterMessage = (
  since: readonly { table: string; id: string; revision: string | null }[],
  decisionId: string,
): string => {
  const [first, ...others] = since
  const { table, id, revision } = first!
  const by = revision === null ? ': it is gone' : revision === decisionId ? '' : ` by the decision ${revision}`
  const more = others.length === 0 ? '' : `, and so were ${others.length} more rows`
  return `${table} ${id} was changed since${by}${more}; take the later decisions back first`
}
