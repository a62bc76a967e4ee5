// Shared by all admin writes: Idempotency-Key, If-Match, and the row of the response.
import type { ControlReader, Rows, TableName } from '../../domain/control.ts'
import type { Cause, EventRecord } from '../../domain/kernel/decision.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import { hmacHex } from '../../lib/crypto/digest.ts'
import type { Commit, CommitResult } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import type { Principal } from '../auth.ts'

/** The intent of a write, from its headers. */
export interface WriteIntent {
  readonly cause: Cause | null
  /** The revisions that the caller accepts; null: all of them. */
  readonly ifMatch: readonly string[] | null
}

const MAX_IDEMPOTENCY_KEY = 255

/**
 * The intent of a request. The same key on another path is another write; with another body or query it is a conflict.
 * Digests are keyed (`causeKey`, the same on every instance): they stay in the log for ever, and a body may hold a
 * secret.
 */
export const writeIntent = (
  request: Request,
  url: URL,
  body: string,
  principal: Principal,
  causeKey: Uint8Array,
): WriteIntent => {
  const key = request.headers.get('idempotency-key')
  if (key !== null && (key === '' || key.length > MAX_IDEMPOTENCY_KEY)) {
    throw new GatewayError('invalid_request', `Idempotency-Key must have 1 to ${MAX_IDEMPOTENCY_KEY} characters`, {
      param: 'Idempotency-Key',
    })
  }
  const { type, id } = principal.actor
  const cause =
    key === null
      ? null
      : {
          id: hmacHex(causeKey, JSON.stringify([type, id, request.method, url.pathname, key])),
          body: hmacHex(causeKey, JSON.stringify([url.search, body])),
        }
  const match = request.headers.get('if-match')
  return { cause, ifMatch: match === null ? null : revisionsOf(match) }
}

/**
 * The revisions of `If-Match`: a list (RFC 9110, 13.1.1), each with or without quotes, or `*`. Weak ones count as
 * strong: a revision identifies the row byte for byte.
 */
const revisionsOf = (text: string): string[] =>
  [...text.matchAll(/\s*(?:(?:W\/)?"([^"]*)"|([^,]*))\s*(?:,|$)/gy)]
    .map(([, quoted, bare = '']) => quoted ?? bare.trim())
    .filter((revision) => revision !== '')

/** Rejects when the row has none of the revisions that the caller accepts. `*` is any row. */
export const requireMatch = (
  ifMatch: readonly string[] | null,
  row: { readonly revision: string } | undefined,
): void => {
  if (ifMatch === null || (row !== undefined && (ifMatch.includes('*') || ifMatch.includes(row.revision)))) return
  const what =
    row === undefined
      ? 'there is nothing yet that could match'
      : `it was changed since; its revision is ${row.revision}`
  throw new Rejection('conflict', `If-Match does not hold: ${what}`, 'If-Match')
}

type Writer = { readonly principal: Principal; readonly intent: WriteIntent }
type Written = (state: ControlReader) => { readonly id?: string; readonly revision: string } | undefined
type Decide = (state: ControlReader) => readonly EventRecord[]

/**
 * Commits the events of `decide` as the caller's write. `row` is the row that `If-Match` is compared with, and the
 * result of a repeat of a write that changed nothing; undefined for a row that is yet to be created.
 */
export const write = (commit: Commit, call: Writer, row: Written, decide: Decide): Promise<CommitResult> =>
  commit({ ...intended(call, row, decide), about: row })

/**
 * Runs the checks of `write` on the newest state, and writes nothing. A repeat of a write that counted returns the
 * result of the first.
 */
export const precheck = (commit: Commit, call: Writer, row: Written, check: (state: ControlReader) => void) =>
  commit(
    intended(call, row, (state) => {
      check(state)
      return []
    }),
  )

const intended = ({ principal, intent }: Writer, row: Written, decide: Decide) => ({
  actor: principal.actor,
  cause: intent.cause,
  decide(state: ControlReader) {
    const events = decide(state) // first, so that an unknown id is 404 even with If-Match
    requireMatch(intent.ifMatch, row(state))
    return events
  },
})

/** The row of a table after a commit that always writes one. Throws where it did not, which is a defect. */
export const writtenRow = <Name extends TableName>(result: CommitResult, table: Name): Rows[Name] => {
  const row = rowAfter(result, table)
  if (row === undefined) throw new Error(`the decision ${result.revision} has no row of ${table}`)
  return row
}

/** The row of a table after a commit, or undefined. After a repeat it is the row of the first write. */
export const rowAfter = <Name extends TableName>(result: CommitResult, table: Name): Rows[Name] | undefined =>
  result.changes.findLast((change) => change.table === table && change.after !== null)?.after as Rows[Name] | undefined
