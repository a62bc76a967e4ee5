// The read models of a test file: a separate database, workers that end with the test that started them, and the
// contents of the tables.
import { afterAll, afterEach, beforeAll, beforeEach } from 'bun:test'
import { type AnyProjection, activeBuild } from '../../projections/builds.ts'
import type { Sql } from '../../projections/database.ts'
import { rebuild } from '../../projections/rebuild.ts'
import { readModels, type WorkerOptions } from '../../projections/worker.ts'
import type { EventLog } from '../../src/log/port.ts'
import { sharedPostgres, silent, type TestDatabase } from '../services/postgres.ts'
import { applied, MAC_KEY, openSql, type RunningWorker, startWorker, tableDigest } from './support.ts'

export interface RequestCells {
  readonly id: string
  readonly outcome: string
  readonly latency_ms: number
}

export interface TestStore {
  /** A connection of the test's own. */
  readonly sql: Sql
  readonly databaseUrl: string
  /** Starts a worker on this log; it ends with the test at the latest, which fails when the worker did. */
  follow(log: EventLog, more?: Partial<WorkerOptions>): RunningWorker
  /**
   * Runs a worker until all that the log holds now is in the tables of a model, `requests` by default, and stops it.
   * Returns their schema.
   */
  fold(log: EventLog, more?: Partial<WorkerOptions> & { readonly model?: string }): Promise<string>
  /** Waits until the active build of a model has applied a partition up to an offset; answers its schema. */
  applied(model: string, next: number, partition?: number): Promise<string>
  /** The schema of the active build of a model. */
  schemaOf(model: string): Promise<string>
  /** Makes every model anew, or those that are named; `print` gets what the operator reads. */
  rebuild(log: EventLog, more?: { readonly models?: readonly string[]; print?(line: string): void }): Promise<void>
  /** Drops every table, as if the database was lost. */
  empty(): Promise<void>
  /** The rows of the request log, by id. */
  requests(schema: string): Promise<readonly RequestCells[]>
  /** What was set aside of a model, in the order of the log. */
  setAside(model: string): Promise<readonly { readonly log_offset: number; readonly reason: string }[]>
  /** SHA-256 of all figures of usage. */
  usageDigest(schema: string): Promise<string>
}

/** The first schema that a model gets in an empty database. */
export const firstSchemaOf = (model: string): string => {
  const { name, version } = modelNamed(model)
  return `${name}_v${version}_b1`
}

const modelNamed = (model: string): AnyProjection => {
  const found = readModels(MAC_KEY).find(({ name }) => name === model)
  if (found === undefined) throw new Error(`no read model is named ${model}`)
  return found
}

/**
 * Call it once, at the top of a test file or of a `describe`: it makes the database before the tests and removes it
 * after them. Each test begins without a table and without a worker; with `kept` the tables and the workers stay from
 * test to test, for tests about one and the same content.
 */
export const testStore = ({ kept = false }: { readonly kept?: boolean } = {}): TestStore => {
  let database: TestDatabase
  let sql: Sql
  const workers = new Set<RunningWorker>()

  const empty = async () => {
    const schemas = await sql<{ name: string }[]>`
      select nspname as name from pg_namespace where nspname = 'gatelog' or nspname ~ '_v[0-9]+_b[0-9]+$'`
    for (const { name } of schemas) await sql`drop schema ${sql(name)} cascade`
  }
  const stopWorkers = async () => {
    const running = [...workers]
    workers.clear()
    await Promise.all(running.map((worker) => worker.stop()))
  }
  beforeAll(async () => {
    database = await sharedPostgres()
    sql = openSql(database.url)
  }, 60_000)
  afterAll(async () => {
    await stopWorkers()
    await sql?.end({ timeout: 1 })
    await database?.remove()
  }, 60_000)
  if (!kept) {
    beforeEach(empty, 60_000)
    afterEach(stopWorkers, 60_000)
  }

  const follow: TestStore['follow'] = (log, more = {}) => {
    const worker = startWorker({ log, databaseUrl: database.url, ...more })
    workers.add(worker)
    return worker
  }
  return {
    get sql() {
      return sql
    },
    get databaseUrl() {
      return database.url
    },
    follow,
    async fold(log, { model = 'requests', ...more } = {}) {
      const { topic } = modelNamed(model)
      const worker = follow(log, more)
      let schema = ''
      for (const partition of await log.partitions(topic))
        schema = await applied(sql, model, await log.end(topic, partition), partition)
      await worker.stop()
      return schema
    },
    applied: (model, next, partition) => applied(sql, model, next, partition),
    async schemaOf(model) {
      const build = await activeBuild(sql, model)
      if (build === null) throw new Error(`${model} has no active build`)
      return build.schemaName
    },
    async rebuild(log, { models, print = () => {} } = {}) {
      await rebuild({
        projections: readModels(MAC_KEY).filter(({ name }) => models?.includes(name) ?? true),
        log,
        databaseUrl: database.url,
        signal: new AbortController().signal,
        diagnostics: silent,
        print,
      })
    },
    empty,
    requests: async (schema) =>
      sql<RequestCells[]>`select id, outcome, latency_ms from ${sql(`${schema}.request`)} order by id`,
    setAside: async (model) =>
      sql<{ log_offset: number; reason: string }[]>`
        select log_offset, reason from gatelog.poison where model = ${model} order by log_offset`,
    usageDigest: (schema) => tableDigest(sql, schema, 'usage', 'tier, dimension, tenant_id, bucket_ms, name, model'),
  }
}
