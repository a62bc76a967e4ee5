// `/admin/v1/log`: every record of the control topic with its verdict, read by the history thread; and reverting a
// decision.

import type { EventRecord } from '../../../domain/kernel/decision.ts'
import { masked } from '../../../domain/kernel/mask.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import type { RowChange } from '../../../domain/kernel/tables.ts'
import { changedSince, decideRevert, netChanges } from '../../../domain/revert.ts'
import type { IdPrefix } from '../../../lib/crypto/ids.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { History, LaterChange, LogDetail, LogEntry } from '../../../state/history/history-port.ts'
import type { Commit, CommitResult, DataKeys, LiveState } from '../../../state/port.ts'
import { GatewayError } from '../../../wire/errors.ts'
import { LogAnswer, LogRecordAnswer, RevertAnswer } from '../answers/work.ts'
import { queryHistory } from '../as-of.ts'
import { checkedCommit, notFrozen } from '../checked-commit.ts'
import { Paging, pageOf, wholeOf } from '../list.ts'
import { type AdminCall, type AdminRoute, route } from '../route.ts'
import { write } from '../write.ts'

export interface LogDeps {
  readonly live: Pick<LiveState, 'control'>
  readonly history: History
  readonly commit: Commit
  readonly dataKeys: Pick<DataKeys, 'ids' | 'erase'>
  newId(prefix: IdPrefix): string
  nowMs(): number
}

/** The log holds the decisions of all tenants' operators: only `*` may read it. */
const ALL = ['*'] as const
const SEALED = '[sealed]'
const BY_ID = /^[0-9a-f]{64}$/

const iso = (ms: number): string => new Date(ms).toISOString()

const entryView = ({ offset, id, verdict, reason, logAtMs, decision }: LogEntry) => ({
  offset,
  id,
  verdict,
  reason,
  at: decision?.at ?? null,
  log_at: iso(logAtMs),
  actor: decision?.actor ?? null,
  instance: decision?.by ?? null,
  parent: decision?.parent ?? null,
  has_cause: decision?.hasCause ?? false,
  event_types: decision?.eventTypes ?? [],
  reverts: decision?.reverts ?? null,
})

const eventView = ({ type, data }: EventRecord) => ({ type, data: masked(data, SEALED) })
const changeView = ({ table, id, before, after }: RowChange) => ({
  table,
  id,
  before: masked(before, SEALED),
  after: masked(after, SEALED),
})

const listLog = ({ history }: LogDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/log',
    scopes: ALL,
    summary: 'Every record of the control log with its verdict, newest first; `before` is an offset to go on from',
    rows: 'decisions',
    answer: LogAnswer,
    whole: true,
    query: t.Object({ ...Paging, before: t.Optional(t.String()) }),
    async handle({ query }) {
      const { limit, offset } = pageOf(query)
      const before = query.before === undefined ? null : wholeOf(query.before, 'before', 0, 0)
      const { entries, total } = await queryHistory(history, 'page', { before, skip: offset, limit })
      const last = entries.at(-1)?.offset ?? 0
      return {
        body: { decisions: entries.map(entryView), total, limit, offset, next_before: last === 0 ? null : last },
      }
    },
  })

/** The record of this id, or at this offset. Throws 404. */
const recordOf = async (history: History, id: string): Promise<LogDetail> => {
  const isOffset = /^\d{1,15}$/.test(id)
  const record =
    isOffset || BY_ID.test(id) ? await queryHistory(history, 'record', { id: isOffset ? Number(id) : id }) : null
  if (record === null) throw new GatewayError('not_found', `the log has no record "${id}"; it is an id or an offset`)
  return record
}

const showRecord = ({ history }: LogDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/log/:id',
    scopes: ALL,
    summary: 'One record, by its id or offset: its events, and the rows before and after',
    answer: LogRecordAnswer,
    async handle({ params }) {
      const { entry, events, changes, changesTotal } = await recordOf(history, params.id)
      return {
        body: {
          ...entryView(entry),
          events: events.map(eventView),
          changes: changes.map(changeView),
          changes_total: changesTotal,
        },
      }
    },
  })

/** The decision, when it can be reverted at all. Throws 404 and 409. */
const revertible = async (history: History, id: string): Promise<LogDetail & { readonly id: string }> => {
  const record = await recordOf(history, id)
  const { entry, changes, changesTotal } = record
  if (entry.id === null || entry.verdict !== 'counted') {
    throw new Rejection(
      'conflict',
      `this record did not count (${entry.verdict}): it changed nothing that could be taken back`,
    )
  }
  if (changesTotal > changes.length) {
    throw new Rejection('conflict', `the decision changed ${changesTotal} rows: too many to be taken back by one`)
  }
  return { ...record, id: entry.id }
}

/** Throws the rejection; one caused by later decisions names them. */
const withLaterDecisions = async (
  error: unknown,
  { live, history }: LogDeps,
  { entry, changes }: LogDetail,
): Promise<never> => {
  const isConflict = error instanceof Rejection && error.reason === 'conflict'
  const rows = isConflict ? changedSince(live.control, changes).map(({ table, id }) => ({ table, id })) : []
  if (rows.length === 0) throw error
  const later = await queryHistory(history, 'later', { after: entry.offset, rows })
  const { table, id } = rows[0]!
  const by = later.map(({ revision }) => revision).join(', ')
  throw new GatewayError(
    'invalid_request',
    `${table} ${id} was changed since, by ${by}; take later decisions back first`,
    { status: 409, type: 'conflict_error', details: { later: later.map(laterView) }, cause: error },
  )
}

const laterView = ({ revision, at, rows }: LaterChange) => ({ revision, at, rows })

const Flag = t.Optional(t.Union([t.Literal('true'), t.Literal('false')]))

const revert = (deps: LogDeps): AdminRoute => {
  const commit = checkedCommit(deps.commit, () => deps.nowMs(), notFrozen)
  return route({
    method: 'POST',
    path: '/log/:id/revert',
    scopes: ALL,
    summary: 'Take a decision back, whole, by the inverse decision; with `dry_run=true` only say what that would be',
    query: t.Object({ dry_run: Flag }),
    answer: RevertAnswer,
    async handle(call) {
      const record = await revertible(deps.history, call.params.id)
      const { id: decisionId, changes } = record
      const newIds = changes.map(() => deps.newId('ovr'))
      const command = { decisionId, changes, granter: call.principal, dataKeyIds: deps.dataKeys.ids, newIds }
      let events: readonly EventRecord[] = []
      const decide = (state: LiveState['control']) => {
        events = decideRevert(state, { ...command, nowMs: deps.nowMs() })
        return events
      }
      const isDry = call.query.dry_run === 'true'
      const deciding = isDry ? dryRun(commit, call, decide) : write(commit, call, () => undefined, decide)
      const result = await deciding.catch((error: unknown) => withLaterDecisions(error, deps, record))
      if (result.repeated) events = (await recordOf(deps.history, result.revision)).events
      else if (!isDry) await eraseReplaced(deps, result)
      return {
        body: {
          reverted: !isDry,
          dry_run: isDry,
          reverts: decisionId,
          events: events.map(eventView),
          rows: netChanges(changes).map(({ table, id }) => ({ table, id })),
        },
        ...(isDry ? {} : { revision: result.revision }),
      }
    },
  })
}

/** Decides as a write would, on the newest state, and writes nothing. */
const dryRun = (commit: Commit, { principal }: AdminCall, decide: (state: LiveState['control']) => unknown) =>
  commit({
    actor: principal.actor,
    decide(state) {
      decide(state)
      return []
    },
  })

/** A secret that the revert has replaced is erased with its data key, as after any other write. */
const eraseReplaced = async ({ dataKeys }: LogDeps, { changes }: CommitResult): Promise<void> => {
  const keyOf = (row: unknown) => (row as { credential?: { key_id: string } | null } | null)?.credential?.key_id
  for (const { before, after } of changes) {
    const old = keyOf(before)
    if (old !== undefined && old !== keyOf(after)) await dataKeys.erase(old)
  }
}

export const logRoutes = (deps: LogDeps): AdminRoute[] => [listLog(deps), showRecord(deps), revert(deps)]
