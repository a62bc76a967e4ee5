// Reads through the active build of a read model, within a deadline. The `query.ts` files are made with it.
import { sleep } from '../src/lib/event-loop/sleep.ts'
import { codeOf } from '../src/lib/process/error-code.ts'
import { activeBuild } from './builds.ts'
import {
  isConnectionError,
  isMissingTable,
  isTooSlow,
  type Queryable,
  type Sql,
  sqlStateOf,
  type Transaction,
  within,
} from './database.ts'
import { databaseProblem } from './problems.ts'

/** The read model cannot be read now; the message gives the reason, for people. */
export class ReadStoreUnavailable extends Error {
  override readonly name = 'ReadStoreUnavailable'
}

/** It was never built, or its server may be starting: in a moment it can perhaps be read. */
class BeingBuilt extends ReadStoreUnavailable {}

export const READ_WITHIN_MS = 2_000
/** A first start serves before its worker has made the tables: a read waits for them. */
const BUILT_WITHIN_MS = 3_000
const BUILT_RETRY_MS = 100

const ATTEMPTS = 3
const RETRY_MS = 50

/**
 * Runs a query on the schema of the active build. Resolves or throws ReadStoreUnavailable within 2 s, or within 5 s
 * while the read model is built.
 */
export const readActive = <Result>(
  sql: Sql,
  model: string,
  run: (schemaName: string) => Promise<Result>,
): Promise<Result> => attempted(model, async () => run(await schemaOf(sql, model)))

/** The same for several queries that see one moment: what is written meanwhile is in none of them. */
export const readSnapshot = <Result>(
  sql: Sql,
  model: string,
  run: (transaction: Transaction, schemaName: string) => Promise<Result>,
): Promise<Result> =>
  attempted(
    model,
    () =>
      sql.begin('isolation level repeatable read read only', async (transaction) =>
        run(transaction, await schemaOf(transaction, model)),
      ) as Promise<Result>,
  )

const schemaOf = async (sql: Queryable, model: string): Promise<string> => {
  const build = await activeBuild(sql, model)
  if (build === null) throw new BeingBuilt(`the read model "${model}" is being built`)
  return build.schemaName
}

const attempted = async <Result>(model: string, run: () => Promise<Result>): Promise<Result> => {
  for (const deadline = performance.now() + BUILT_WITHIN_MS; ; ) {
    try {
      return await attemptedNow(model, run)
    } catch (error) {
      if (!(error instanceof BeingBuilt) || performance.now() + BUILT_RETRY_MS > deadline) throw error
      await sleep(BUILT_RETRY_MS)
    }
  }
}

const attemptedNow = async <Result>(model: string, run: () => Promise<Result>): Promise<Result> => {
  const attempt = async (left: number): Promise<Result> => {
    try {
      return await run()
    } catch (error) {
      if (error instanceof ReadStoreUnavailable || left === 0) throw error
      // A build that is replaced between the two queries, or a connection that was lost with a server that is there
      // again.
      if (!isMissingTable(error) && !isConnectionError(error)) throw error
      await sleep(RETRY_MS)
      return attempt(left - 1)
    }
  }
  try {
    return await within(attempt(ATTEMPTS - 1), READ_WITHIN_MS)
  } catch (cause) {
    if (cause instanceof ReadStoreUnavailable) throw cause
    if (isMissingTable(cause)) throw new BeingBuilt(`the read model "${model}" is being built`, { cause })
    const problem = isTooSlow(cause)
      ? 'it would take too long: ask for a shorter window'
      : `Postgres cannot be used: ${databaseProblem(cause)}`
    const Failure = isStarting(cause) ? BeingBuilt : ReadStoreUnavailable
    throw new Failure(problem, { cause })
  }
}

/**
 * Perhaps starting: the embedded server makes its socket when it starts, a server says so itself. A read waits for it,
 * and its failure then names the problem: the socket of another server may be missing for good.
 */
const isStarting = (cause: unknown): boolean => codeOf(cause) === 'ENOENT' || sqlStateOf(cause) === '57P03'
