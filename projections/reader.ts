// Reads through the active build of a read model, within a deadline. What `query.ts` files are made with.
import { activeBuild } from './builds.ts'
import { isMissingTable, type Sql, within } from './database.ts'

/** The read model cannot be read now; the message says why, for people. */
export class ReadStoreUnavailable extends Error {
  override readonly name = 'ReadStoreUnavailable'
}

export const READ_WITHIN_MS = 2_000

/** Runs a query on the schema of the active build. Answers or throws ReadStoreUnavailable within 2 s. */
export const readActive = async <Result>(
  sql: Sql,
  model: string,
  run: (schemaName: string) => Promise<Result>,
): Promise<Result> => {
  const attempt = async (): Promise<Result> => {
    const build = await activeBuild(sql, model)
    if (build === null) throw new ReadStoreUnavailable(`the read model "${model}" is being built`)
    return run(build.schemaName)
  }
  try {
    // A build that is replaced between the two queries is looked up once more.
    return await within(
      attempt().catch((error) => {
        if (isMissingTable(error)) return attempt()
        throw error
      }),
      READ_WITHIN_MS,
    )
  } catch (cause) {
    if (cause instanceof ReadStoreUnavailable) throw cause
    const why = isMissingTable(cause) ? `the read model "${model}" is being built` : 'Postgres does not answer'
    throw new ReadStoreUnavailable(why, { cause })
  }
}
