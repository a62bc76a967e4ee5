// Failures of Postgres in words: what is wrong and what to do. Holds nothing of a row, a statement or a password.
import { connectionProblem } from '../src/lib/process/connection-problem.ts'
import { codeOf } from '../src/lib/process/error-code.ts'
import { StoreTimeout, sqlStateOf } from './database.ts'

const STOPPED = 'the server is being stopped'
const SILENT =
  'it does not answer in time, or hangs up before: check that host and port are those of Postgres, and its load'
const PARTLY = 'the server has no room for it'

/** By SQLSTATE; a class of two letters stands for those of its states that are not listed. */
const BY_STATE: Readonly<Record<string, string>> = {
  '28P01': 'it refuses the user name or the password: correct them in database.url',
  '28000':
    'no rule of pg_hba.conf admits this user, database and kind of connection: add one there, or sslmode=require to ' +
    'database.url where it wants TLS',
  '3D000': 'the database does not exist: create it, or name another in database.url',
  '42501': 'the user may not do this: make it the owner of the database, or grant it CREATE on the database',
  '25006': 'the server is a standby that only reads: name the primary in database.url',
  '53100': 'its disk is full: make room there',
  '53200': 'it is out of memory',
  '53300': 'it has no connection left: raise max_connections there, or run fewer processes',
  '53400': `${PARTLY} by its settings`,
  '57014': 'the statement took longer than it may',
  '57P01': STOPPED,
  '57P02': STOPPED,
  '57P03': 'the server is starting, and takes no connection yet',
  '57P04': 'the database was dropped: create it again',
  '57P05': 'the server ended the session because it was idle: raise idle_session_timeout there',
  '58P01': 'a file of the database is missing: the cluster is damaged',
  '58030': 'its disk fails: see its log',
  XX001: 'its data are damaged: see its log, then run `gateway rebuild`',
  XX002: 'an index of it is damaged: see its log, then run `gateway rebuild`',
  '42P01': 'a table is missing',
  '3F000': 'a schema is missing',
  '40001': 'another session wrote at the same time',
  '40P01': 'sessions waited for each other',
  '55P03': 'another session holds a lock',
  '08': 'the connection failed',
  '0A': 'it does not know this statement: Postgres 14 or later is needed',
  '22': 'it cannot store a value',
  '23': 'a rule of the table refuses a row',
  '42': 'it does not know this statement: Postgres 14 or later is needed',
  '53': PARTLY,
  '54': 'a limit of the server is reached',
  '58': 'its system fails: see its log',
  XX: 'it has an internal error: see its log',
}

const BY_REFUSAL: Readonly<Record<string, string>> = {
  AUTH_REFUSED:
    'the password is not given: the server asks for it in a way that shows it, or proves nothing. Use SCRAM there ' +
    '(password_encryption), or sslmode=require in database.url',
  SASL_SIGNATURE_MISMATCH: 'the password is not accepted: the server does not prove that it knows it',
  TLS_REFUSED: 'the server offers no TLS: switch it on there, or take sslmode from database.url',
}

/** Whether Postgres or the way to it failed, as opposed to the log or a fold. */
export const isOfDatabase = (error: unknown): boolean =>
  error instanceof StoreTimeout ||
  sqlStateOf(error) !== null ||
  (codeOf(error) ?? '') in BY_REFUSAL ||
  connectionProblem(error) !== null

/** One sentence without `Postgres` in front: `it refuses the user name ... (28P01)`. */
export const databaseProblem = (error: unknown): string => {
  if (error instanceof StoreTimeout) return SILENT
  const state = sqlStateOf(error)
  if (state !== null) {
    const words = BY_STATE[state] ?? BY_STATE[state.slice(0, 2)] ?? 'it refuses the statement: see its log'
    return `${words} (${state})`
  }
  const code = codeOf(error) ?? ''
  const refusal = BY_REFUSAL[code]
  if (refusal !== undefined) return `${refusal} (${code})`
  return connectionProblem(error) ?? (error instanceof Error ? error.message : String(error))
}
