// `?as_of=` of configuration reads: the same route, run by the history thread on the state as of that moment.
import { type TSchema, t } from '../../lib/schema/schema.ts'
import {
  type History,
  HistoryUnavailable,
  type Moment,
  type QuestionName,
  type Questions,
} from '../../state/history/history-port.ts'
import { type ErrorCode, GatewayError } from '../../wire/errors.ts'
import type { ListFormat } from './format.ts'
import type { AdminCall, AdminRoute } from './route.ts'
import { timestampMs } from './window.ts'

/** The read as it was authorised: what the history thread gets. All of it can be copied. */
export interface PastRead {
  readonly path: string
  readonly params: AdminCall['params']
  readonly query: Readonly<Record<string, string>>
  readonly principal: AdminCall['principal']
  readonly format: ListFormat
  /** Names of operators by id, null where erased. They are sealed in the log, and the history thread opens no seals. */
  readonly usernames: Readonly<Record<string, string | null>>
  /** Names of all dependencies of the routes. The history thread refuses by name the use of one that has no past. */
  readonly given: readonly string[]
}

export type PastReply =
  | { readonly kind: 'answer'; readonly status: number; readonly text: string }
  | {
      readonly kind: 'error'
      readonly code: ErrorCode
      readonly message: string
      readonly status: number
      readonly type: string
      readonly param: string | null
    }

const AS_OF = t.Optional(
  t.String({
    maxLength: 64,
    description:
      'The configuration as it was: an RFC 3339 time, or the id of a decision (a revision). What only the ' +
      'present knows (health, last uses) is null.',
  }),
)

/** Adds `as_of` to a configuration read of the route table. */
export const withPast = (route: AdminRoute): AdminRoute => {
  if (route.method !== 'GET' || route.past === false) return route
  const known = route.querySchema?.properties as Record<string, TSchema> | undefined
  return { ...route, past: true, querySchema: t.Object({ ...known, as_of: AS_OF }) }
}

/**
 * The moment of `as_of`; null without one, and for a route that handles it by itself. Throws 400 for a route without a
 * past, and for a moment later than `latestMs`: until then the state could still change.
 */
export const momentOf = (route: AdminRoute, text: string | undefined, latestMs: number): Moment | null => {
  if (text === undefined) return null
  const takesItself = route.past !== true && route.querySchema?.properties?.as_of !== undefined
  if (route.past !== true && !takesItself) {
    throw new GatewayError('invalid_request', '"as_of" is for reads of the configuration; this has no past', {
      param: 'as_of',
    })
  }
  const moment = parseMoment(text)
  if ('atMs' in moment && moment.atMs > latestMs)
    throw new GatewayError('invalid_request', '"as_of" must not be later than now', { param: 'as_of' })
  return takesItself ? null : moment
}

/** A time or a revision. Throws 400 for what is neither. */
export const parseMoment = (text: string): Moment => {
  if (/^(?:[0-9a-fA-F]{16}|[0-9a-fA-F]{64})$/.test(text)) return { id: text.toLowerCase() }
  const atMs = timestampMs(text)
  if (atMs !== null) return { atMs }
  throw new GatewayError(
    'invalid_request',
    '"as_of" must be an RFC 3339 time (2026-01-31T12:00:00Z) or a revision (64 hexadecimal digits, or the ' +
      'first 16 of them)',
    { param: 'as_of' },
  )
}

/** Queries the history thread. Its unavailability is 504, worth a retry. */
export const queryHistory = async <Name extends QuestionName>(
  history: History,
  name: Name,
  ask: Questions[Name]['parameters'],
): Promise<Questions[Name]['reply']> => {
  try {
    return await history.query(name, ask)
  } catch (error) {
    if (!(error instanceof HistoryUnavailable)) throw error
    throw new GatewayError('timeout', `the history cannot be read now: ${error.message}`, {
      retryAfterS: 2,
      cause: error,
    })
  }
}

export const momentNotFound = (moment: Moment): GatewayError => {
  const what = 'id' in moment ? 'no decision that counted has this id' : 'this is before the first decision'
  return new GatewayError('not_found', `"as_of": ${what}`, { param: 'as_of' })
}

/**
 * The past response and the revision that it shows. Throws 404 for a moment outside the history, and the error of the
 * route itself.
 */
export const pastResponse = async (
  history: History,
  moment: Moment,
  read: PastRead,
): Promise<{ readonly status: number; readonly text: string; readonly revision: string }> => {
  const found = await queryHistory(history, 'past', { moment, read })
  if (found === null) throw momentNotFound(moment)
  const answer = found.reply as PastReply
  if (answer.kind === 'answer') return { ...answer, revision: found.point.revision }
  const { code, message, status, type, param } = answer
  throw new GatewayError(code, message, { status, type, param })
}
