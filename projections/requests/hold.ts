// Write access to a build: one transaction at a time.
import type { Sql, Transaction } from '../database.ts'
import type { Build } from '../projection.ts'
import { DAY_MS } from './days.ts'

/**
 * One transaction writes a build at a time, whatever partition it is of. Joins of the batch go by index: Postgres has
 * no statistics of new tables. Returns the first day whose single requests are kept.
 */
export const holdBuild = async (sql: Transaction, { schemaName }: Build, keepDays: number): Promise<number> => {
  const [row] = await sql<{ day: number | null }[]>`
    select (select day from ${sql(`${schemaName}.newest_day`)}) as day,
      pg_advisory_xact_lock(hashtextextended(${`gatelog rows ${schemaName}`}, 0)),
      set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
        set_config('enable_seqscan', 'off', true)`
  return row!.day === null ? Number.NEGATIVE_INFINITY : (row!.day - keepDays) * DAY_MS
}

/**
 * Waits for the transaction that writes into the build at this moment: a transaction that begins after this sees what
 * was committed before it.
 */
export const untilWritten = async (sql: Sql, { schemaName }: Build): Promise<void> => {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`gatelog rows ${schemaName}`}, 0))`
}
