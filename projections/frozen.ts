// A worker that stands still in the midst of a transaction (stopped, or on a dead machine) holds its locks, and every
// other worker waits for them.
import type { Sql } from './database.ts'

/** Sessions of workers and rebuilds, by `openDatabase({ name })`. */
const NAMES = ['gatelog-worker', 'gatelog-rebuild']

/**
 * Ends the sessions whose transaction has waited so long for its own client, with its locks. Nothing is lost: the
 * transaction was never committed, and its worker, should it go on, finds that another one owns the partition. Returns
 * how many were ended.
 */
export const endFrozen = async (sql: Sql, frozenMs: number): Promise<number> => {
  // `active` with ClientRead: in the midst of a COPY, which no timeout of the server ends.
  const ended = await sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where application_name in ${sql(NAMES)} and datname = current_database() and usename = current_user
      and xact_start is not null and wait_event = 'ClientRead'
      and state_change < now() - make_interval(secs => ${frozenMs / 1_000})`
  return ended.length
}
