// Reads through the active build of a read model, within a deadline. What `query.ts` files are made with.
import { pause } from '../src/lib/pause.ts'
import { activeBuild } from './builds.ts'
import { isConnectionError, isMissingTable, type Sql, within } from './database.ts'

/** The read model cannot be read now; the message says why, for people. */
export class ReadStoreUnavailable extends Error {
  override readonly name = 'ReadStoreUnavailable'
}

export const READ_WITHIN_MS = 2_000

const ATTEMPTS = 3
const RETRY_MS = 50

/** Runs a query on the schema of the active build. Answers or throws ReadStoreUnavailable within 2 s. */
export const readActive = async <Result>(
  sql: Sql,
  model: string,
  run: (schemaName: string) => Promise<Result>,
): Promise<Result> => {
  const attempt = async (left: number): Promise<Result> => {
    try {
      const build = await activeBuild(sql, model)
      if (build === null) throw new ReadStoreUnavailable(`the read model "${model}" is being built`)
      return await run(build.schemaName)
    } catch (error) {
      if (error instanceof ReadStoreUnavailable || left === 0) throw error
      // A build that is replaced between the two queries, or a connection that was lost with a server that is there again.
      if (!isMissingTable(error) && !isConnectionError(error)) throw error
      await pause(RETRY_MS)
      return attempt(left - 1)
    }
  }
  try {
    return await within(attempt(ATTEMPTS - 1), READ_WITHIN_MS)
  } catch (cause) {
    if (cause instanceof ReadStoreUnavailable) throw cause
    const why = isMissingTable(cause) ? `the read model "${model}" is being built` : 'Postgres does not answer'
    throw new ReadStoreUnavailable(why, { cause })
  }
}
