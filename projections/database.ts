// Connections to Postgres, and what its failures mean. The only file that opens any.
import postgres from 'postgres'
import { sleep } from '../src/lib/event-loop/sleep.ts'
import { codeOf } from '../src/lib/process/error-code.ts'

/** bigint columns hold integers below 2^53 (times, counts, nano-USD): they come back as numbers. */
const bigint = { to: 20, from: [20], serialize: String, parse: Number }
type Types = { bigint: number }

export type Sql = postgres.Sql<Types>
export type Transaction = postgres.TransactionSql<Types>
/** Inside a transaction or outside. */
export type Queryable = postgres.ISql<Types>

export interface DatabaseOptions {
  readonly url: string
  /** Shown in pg_stat_activity. */
  readonly name: string
  readonly maxConnections: number
  /** Bound on one statement, in the server. Null: none (the worker's own batches and rebuilds). */
  readonly statementTimeoutMs: number | null
}

/** How long the work under way on an abandoned pool may still take. */
const ABANDONED_S = 3

/**
 * A pool of connections, opened when first used. Never throws by itself: each query reports what is wrong. Once one of
 * its connections was lost, a new pool takes its place for later queries: the driver gives a lost connection's error to
 * a later query, and may count it as busy for ever.
 */
export const openDatabase = (options: DatabaseOptions): Sql => {
  let closed = false
  let pool: Sql
  const replace = (lost: Sql): void => {
    if (closed || pool !== lost) return
    pool = open()
    lost.end({ timeout: ABANDONED_S }).catch(() => {}) // its waiting queries have failed already
  }
  const open = (): Sql => {
    const made: Sql = connect(options, () => replace(made))
    return made
  }
  pool = open()
  const end: Sql['end'] = (how) => {
    closed = true
    return pool.end(how)
  }
  // The target only makes the proxy callable; everything goes to the present pool.
  const database = new Proxy(pool, {
    apply: (_, __, [first, ...rest]: Parameters<Sql>) => pool(first, ...rest),
    get: (_, name) => (name === 'end' ? end : Reflect.get(pool, name)),
  })
  abandoning.set(database, () => replace(pool))
  return database
}

const abandoning = new WeakMap<Sql, () => void>()
const SETTLED_WITHIN_MS = 60_000

/**
 * The result of work on a database, or StoreTimeout after a minute and a new pool: a worker must not wait for a
 * response for ever.
 */
export const settled = async <Result>(sql: Sql, work: Promise<Result>, ms = SETTLED_WITHIN_MS): Promise<Result> => {
  try {
    return await within(work, ms)
  } catch (error) {
    if (error instanceof StoreTimeout) abandoning.get(sql)?.()
    throw error
  }
}

/** Where the URL leads: with `?host=/folder`, as libpq has it, to the socket in that folder. */
export const targetOf = (url: string): { readonly url: string; readonly path?: string } => {
  const at = url.indexOf('?')
  const query = new URLSearchParams(at < 0 ? '' : url.slice(at + 1))
  const folder = query.get('host')
  if (!folder?.startsWith('/')) return { url }
  const path = `${folder}/.s.PGSQL.${query.get('port') ?? '5432'}`
  query.delete('host')
  query.delete('port')
  return { url: `${url.slice(0, at)}${query.size === 0 ? '' : `?${query}`}`, path }
}

const connect = ({ url, name, maxConnections, statementTimeoutMs }: DatabaseOptions, onclose: () => void): Sql => {
  const { url: address, ...target } = targetOf(url)
  return postgres(address, {
    ...target,
    max: maxConnections,
    connect_timeout: 3,
    idle_timeout: null as never, // no connection is closed without a reason
    max_lifetime: null,
    // seconds, between attempts to connect while queries wait
    backoff: (retries: number) => Math.min(1, 0.02 * 2 ** retries),
    onnotice: () => {},
    onclose,
    types: { bigint },
    connection: {
      application_name: name,
      TimeZone: 'UTC',
      ...(statementTimeoutMs === null ? {} : { statement_timeout: statementTimeoutMs }),
    },
  })
}

/** SQLSTATE of a refusal by Postgres, or null when the error is not from Postgres (no connection, timeout). */
export const sqlStateOf = (error: unknown): string | null =>
  error instanceof postgres.PostgresError ? error.code : null

/**
 * A row has no partition to go to (or a check refuses it; the tables of read models have none): the partition was
 * dropped.
 */
export const isMissingPartition = (error: unknown): boolean => sqlStateOf(error) === '23514'

/** The data of a row cannot be stored, now or ever: a retry is useless. */
export const isDataError = (error: unknown): boolean =>
  /^(22|23|54)/.test(sqlStateOf(error) ?? '') && !isMissingPartition(error)

/** The connection failed, or the server is starting or stopping: a retry may succeed in a moment. */
export const isConnectionError = (error: unknown): boolean =>
  error instanceof postgres.PostgresError ? /^(57P0|08)/.test(error.code) : !(error instanceof StoreTimeout)

/** A statement that took longer than it may. */
export const isTooSlow = (error: unknown): boolean => sqlStateOf(error) === '57014'

/** A missing schema or table: the build that a reader had was replaced. */
export const isMissingTable = (error: unknown): boolean => ['42P01', '3F000'].includes(sqlStateOf(error) ?? '')

/** Null when Postgres responded within the time, else the error. */
export const pingError = async (sql: Sql, withinMs: number): Promise<unknown> => {
  try {
    await within(sql`select 1`, withinMs)
    return null
  } catch (error) {
    return error ?? new StoreTimeout('Postgres failed without a reason')
  }
}

/** Only an operator can change it: the password, the user's rules, the database, TLS. */
const isFinal = (error: unknown): boolean => /^(28|3D)/.test(sqlStateOf(error) ?? codeOf(error) ?? '')

/** How long a command waits for Postgres. */
const ANSWERS_WITHIN_MS = 30_000
const PING_MS = 2_000
const PING_AGAIN_MS = 200

/**
 * Null as soon as Postgres responds: an embedded one may just be starting. The last error when the time is over, the
 * signal is aborted, or only an operator can help.
 */
export const untilAnswer = async (sql: Sql, signal: AbortSignal, withinMs = ANSWERS_WITHIN_MS): Promise<unknown> => {
  for (const deadline = performance.now() + withinMs; ; ) {
    const error = await pingError(sql, Math.min(PING_MS, withinMs))
    if (error === null || isFinal(error) || performance.now() > deadline || signal.aborted) return error
    await sleep(PING_AGAIN_MS, signal)
  }
}

/** Postgres did not respond in time. */
export class StoreTimeout extends Error {
  override readonly name = 'StoreTimeout'
}

/**
 * The result of a query, or StoreTimeout. A query that is late is cancelled; one on a silent connection is left behind.
 */
export const within = async <Result>(
  query: postgres.PendingQuery<postgres.Row[]> | Promise<Result>,
  ms: number,
): Promise<Result> => {
  let timer: Timer | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new StoreTimeout(`Postgres did not answer within ${ms} ms`)), ms)
  })
  const result = Promise.resolve(query as Promise<Result>)
  result.catch(() => {}) // a failure after the deadline has no receiver
  try {
    return await Promise.race([result, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Text as Postgres can store it: without NUL and without half a surrogate pair. */
export const storableText = (text: string): string =>
  UNSTORABLE.test(text) ? text.replaceAll('\0', '\uFFFD').toWellFormed() : text
const UNSTORABLE = /[\0\ud800-\udfff]/

/** A value as JSON text that jsonb can store. */
export const storableJson = (value: unknown): string =>
  JSON.stringify(value, (_, member: unknown) => {
    if (typeof member === 'string') return storableText(member)
    if (member === null || typeof member !== 'object' || Array.isArray(member)) return member
    return Object.fromEntries(Object.entries(member).map(([name, inner]) => [storableText(name), inner]))
  })
