// Sessions as requests use them: looked up in the folded state, their use recorded now and then, ended for good even
// when the log is not reachable at that moment.
import { randomBytes } from 'node:crypto'
import {
  decideSession,
  SEEN_EVERY_MS,
  SESSION_MS,
  type SessionRow,
  sessionIsOpen,
} from '../../domain/access/session.ts'
import type { EventRecord } from '../../domain/kernel/decision.ts'
import { sha256Hex } from '../../lib/crypto/digest.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { Commit, CommitResult, LiveState } from '../../state/port.ts'

const TOKEN_BYTES = 32
const MAX_OWED = 1_000
const OWED_EVERY_MS = 5_000
/** Uses since `session.seen` that are remembered; more than there may be sessions in use. */
const MAX_USED = 50_000

export interface SessionsDeps {
  readonly live: Pick<LiveState, 'control' | 'refused'>
  /** Also while the configuration is frozen: operators sign in and out. */
  readonly commit: Commit
  newId(prefix: 'ses'): string
  nowMs(): number
  readonly diagnostics: Diagnostics
}

export interface OpenedSession {
  /** The value of the cookie; stored nowhere else. */
  readonly token: string
  /** RFC 3339. */
  readonly expiresAt: string
  readonly revision: string
}

export interface Sessions {
  /** The session of a token, or null: none, ended, expired, or of a deleted operator. */
  find(token: string): SessionRow | null
  /** Records that it was used just now. */
  used(session: SessionRow): void
  /**
   * Opens one, in one decision with the events that precede it. `keyId`: the data key of the password that was right;
   * null: of an operator that `before` makes. `replaces`: the session that the browser sent.
   * Throws Rejection when the operator is deleted or has another password by then.
   */
  open(
    operatorId: string,
    keyId: string | null,
    replaces: string | null,
    before?: (state: LiveState['control']) => readonly EventRecord[],
  ): Promise<OpenedSession>
  /**
   * Ends it. When the log cannot take that now, it is ended here at once, and everywhere once the log is back. Returns
   * the revision, where there is one yet.
   */
  close(session: SessionRow): Promise<string | null>
  /** Stops retrying to end sessions. */
  stop(): void
}

const actorOf = (operatorId: string) => ({ type: 'operator', id: operatorId }) as const

/**
 * Ends sessions, if need be later: an end that the log does not take now is retried, and the session is refused here
 * meanwhile.
 */
const endings = ({ commit, diagnostics }: SessionsDeps) => {
  const owed = new Map<string, SessionRow>()
  const commitClose = ({ id, operator_id }: SessionRow): Promise<CommitResult> =>
    commit({ actor: actorOf(operator_id), decide: (state) => decideSession(state, { do: 'close', id }) })
  const pay = async (): Promise<void> => {
    for (const [id, session] of owed) {
      try {
        await commitClose(session)
        owed.delete(id)
      } catch (error) {
        diagnostics.debug('session_not_closed_yet', { session_id: id, error })
        return
      }
    }
  }
  const timer = setInterval(() => void pay(), OWED_EVERY_MS)
  timer.unref()
  return {
    isOwed: (id: string): boolean => owed.has(id),
    stop: () => clearInterval(timer),
    async close(session: SessionRow): Promise<string | null> {
      if (owed.size < MAX_OWED) owed.set(session.id, session)
      try {
        const { revision } = await commitClose(session)
        owed.delete(session.id)
        return revision
      } catch (error) {
        diagnostics.warn('session_not_closed', { session_id: session.id, error })
        return null
      }
    },
  }
}

/** Records uses: here each of them, in the log at most one in a quarter of an hour. */
const uses = ({ commit, nowMs, diagnostics }: SessionsDeps) => {
  const usedAtMs = new Map<string, number>()
  const noting = new Set<string>()
  const note = async ({ id, operator_id }: SessionRow): Promise<void> => {
    noting.add(id)
    try {
      const command = { do: 'see', id, nowMs: nowMs() } as const
      await commit({ actor: actorOf(operator_id), decide: (state) => decideSession(state, command) })
    } catch (error) {
      diagnostics.debug('session_use_not_noted', { session_id: id, error }) // the next use tries again
    } finally {
      noting.delete(id)
    }
  }
  return {
    lastOf: (id: string): number | undefined => usedAtMs.get(id),
    forget: (id: string): void => void usedAtMs.delete(id),
    used(session: SessionRow): void {
      const now = nowMs()
      usedAtMs.delete(session.id)
      usedAtMs.set(session.id, now)
      if (usedAtMs.size > MAX_USED) usedAtMs.delete(usedAtMs.keys().next().value!)
      if (Date.parse(session.seen_at) + SEEN_EVERY_MS <= now && !noting.has(session.id)) void note(session)
    },
  }
}

export const createSessions = (deps: SessionsDeps): Sessions => {
  const { live, commit, newId, nowMs } = deps
  const ends = endings(deps)
  const noted = uses(deps)
  return {
    find(token) {
      const [id] = live.control.table('sessions').find('digest', sha256Hex(token))
      const row = id === undefined ? undefined : live.control.table('sessions').get(id)
      if (row === undefined || ends.isOwed(row.id)) return null
      if (live.refused.has(row.id) || live.refused.has(row.operator_id)) return null
      if (live.control.table('operators').get(row.operator_id) === undefined) return null
      return sessionIsOpen(row, nowMs(), noted.lastOf(row.id)) ? row : null
    },
    used: noted.used,
    async open(operatorId, keyId, replaces, before = () => []) {
      const token = randomBytes(TOKEN_BYTES).toString('base64url')
      const expiresAt = new Date(nowMs() + SESSION_MS).toISOString()
      const opened = { id: newId('ses'), operator_id: operatorId, digest: sha256Hex(token), expires_at: expiresAt }
      const { revision } = await commit({
        actor: actorOf(operatorId),
        decide: (state) => [
          ...before(state),
          ...decideSession(state, { do: 'open', key_id: keyId, replaces, ...opened }),
        ],
      })
      return { token, expiresAt, revision }
    },
    close(session) {
      noted.forget(session.id)
      return ends.close(session)
    },
    stop: ends.stop,
  }
}
