// Sessions of the console: signing in and out are decisions, so a session is valid, or ended, on every instance alike.
// Names and fields of the events are stored for ever.
import { type Static, t } from '../../lib/schema/schema.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import type { EventRecord } from '../kernel/decision.ts'
import { Id, Timestamp } from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'
import type { RowChange } from '../kernel/tables.ts'

export const SessionOpened = t.Object({
  id: Id,
  operator_id: Id,
  /** SHA-256 of the token; only the cookie holds the token itself. */
  digest: t.String({ minLength: 64, maxLength: 64 }),
  expires_at: Timestamp,
})
export const SessionSeen = t.Object({ id: Id })
export const SessionClosed = t.Object({
  id: Id,
  /** `replaced`: by a newer one of the same operator. */
  reason: t.String({ minLength: 1, maxLength: 32 }),
})

export interface SessionRow extends Stamps {
  readonly id: string
  readonly operator_id: string
  readonly digest: string
  /** RFC 3339: the absolute end. */
  readonly expires_at: string
  /** RFC 3339: time of the last recorded use, precise to `SEEN_EVERY_MS`. */
  readonly seen_at: string
}

export const SESSION_MS = 43_200_000
export const IDLE_MS = 7_200_000
export const SEEN_EVERY_MS = 900_000
/** Further logins end the oldest. */
export const MAX_SESSIONS = 50
/** Clocks differ: a session is dropped this long after it stopped being usable. */
const SWEPT_AFTER_MS = 3_600_000

const rows = changesOf<SessionRow>('sessions')
const subject = (data: { id: string }): string => data.id

/** Whether the session is usable at that moment. `usedAtMs`: a use that is later than the recorded one. */
export const sessionIsOpen = (
  { expires_at, seen_at }: SessionRow,
  nowMs: number,
  usedAtMs = Number.NEGATIVE_INFINITY,
): boolean => Date.parse(expires_at) > nowMs && Math.max(Date.parse(seen_at), usedAtMs) + IDLE_MS > nowMs

/** The rows of all sessions of an operator as removed, but for one. */
export const sessionsClosedOf = (state: ControlReader, operatorId: string, keptId: string | null): RowChange[] => {
  const sessions = state.table('sessions')
  const ids = sessions.find('operator', operatorId).filter((id) => id !== keptId)
  return ids.toSorted().map((id) => ({ table: 'sessions', id, before: sessions.get(id)!, after: null }))
}

const expired = (state: ControlReader, logAtMs: number): RowChange[] => {
  const gone: RowChange[] = []
  for (const [id, row] of state.table('sessions').rows()) {
    if (!sessionIsOpen(row, logAtMs - SWEPT_AFTER_MS - SEEN_EVERY_MS)) gone.push(...rows.removed(id, row))
  }
  return gone
}

export const session: Aggregate<SessionRow, ControlReader> = {
  table: 'sessions',
  indexes: { digest: (row) => row.digest, operator: (row) => row.operator_id },
  events: {
    'session.opened': eventType({
      schema: SessionOpened,
      since: 3,
      action: 'login',
      resource: 'session',
      subject,
    }),
    'session.seen': eventType({ schema: SessionSeen, since: 3, action: 'use', resource: 'session', subject }),
    'session.closed': eventType({
      schema: SessionClosed,
      since: 3,
      action: 'logout',
      resource: 'session',
      subject,
    }),
  },
  evolve(state, { type, data }, meta) {
    const before = state.table('sessions').get(data.id as string)
    if (type === 'session.opened') {
      const opened = data as Static<typeof SessionOpened>
      if (before !== undefined || state.table('operators').get(opened.operator_id) === undefined) return []
      return [...expired(state, meta.logAtMs), ...rows.created(opened.id, { ...opened, seen_at: meta.at }, meta)]
    }
    if (before === undefined) return []
    return type === 'session.seen'
      ? rows.changed(before.id, before, { seen_at: meta.at }, meta)
      : rows.removed(before.id, before)
  },
}

export type SessionCommand =
  /**
   * `key_id`: the data key of the password that was verified; null: of an operator that the same decision creates.
   * `replaces`: the former session of the same browser.
   */
  | ({ do: 'open'; key_id: string | null; replaces: string | null } & Static<typeof SessionOpened>)
  | { do: 'see'; id: string; nowMs: number }
  | { do: 'close'; id: string }

export const decideSession = (state: ControlReader, command: SessionCommand): EventRecord[] => {
  const sessions = state.table('sessions')
  if (command.do === 'open') {
    const { do: _, key_id, replaces, ...opened } = command
    if (key_id !== null && state.table('operators').get(opened.operator_id)?.key_id !== key_id)
      throw new Rejection('forbidden', 'the operator or the password was changed meanwhile')
    const others = sessions.find('operator', opened.operator_id).filter((id) => id !== replaces)
    const surplus = others.toSorted().slice(0, Math.max(0, others.length + 1 - MAX_SESSIONS)) // ids sort by time
    const ended = replaces !== null && sessions.get(replaces) !== undefined ? [replaces, ...surplus] : surplus
    return [
      ...ended.map((id) => ({ type: 'session.closed', data: { id, reason: 'replaced' } })),
      { type: 'session.opened', data: opened },
    ]
  }
  const row = sessions.get(command.id)
  if (row === undefined) return []
  if (command.do === 'close') return [{ type: 'session.closed', data: { id: row.id, reason: 'logout' } }]
  return Date.parse(row.seen_at) + SEEN_EVERY_MS > command.nowMs ? [] : [{ type: 'session.seen', data: { id: row.id } }]
}
