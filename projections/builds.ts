// The builds of a read model: the active one, which readers use, and one that is made beside it until it has caught up.
import catalogue from './catalogue.sql' with { type: 'text' }
import { type Queryable, type Sql, type Transaction, within } from './database.ts'
import type { Build, Projection } from './projection.ts'

/** Any projection: its rows do not matter here. */
export type AnyProjection = Projection<never>

const columns = (sql: Queryable) => sql`model, build, version, schema_name as "schemaName", state`

/** Makes the tables that stand behind every read model. Idempotent, and safe when several workers start at once. */
export const prepareCatalogue = async (sql: Sql): Promise<void> => {
  await sql.begin(async (transaction) => {
    await lockBuilds(transaction, 'catalogue')
    await transaction.unsafe(catalogue)
  })
}

/** Builds are made and replaced one at a time. */
const lockBuilds = (sql: Transaction, model: string) =>
  sql`select pg_advisory_xact_lock(hashtextextended(${`gatelog builds ${model}`}, 0))`

/** Null while nothing was built yet. */
export const activeBuild = async (sql: Queryable, model: string): Promise<Build | null> => {
  const [row] = await sql<Build[]>`
    select ${columns(sql)} from gatelog.build where model = ${model} and state = 'active'`
  return row ?? null
}

/**
 * The build that a worker of this version keeps: the active one when it is of this version, else the one of this
 * version that is being made beside it. The first build of all is active at once, as is one in place of tables that
 * were dropped: there is nothing to show in its place. Null when a newer version is active: this worker is outdated.
 */
export const buildToKeep = (sql: Sql, projection: AnyProjection): Promise<Build | null> =>
  sql.begin(async (transaction) => {
    await lockBuilds(transaction, projection.name)
    const active = await activeBuild(transaction, projection.name)
    if (active !== null && active.version <= projection.version && !(await hasSchema(transaction, active))) {
      await dropBuild(transaction, active)
      return makeBuild(transaction, projection, 'active')
    }
    if (active === null) return makeBuild(transaction, projection, 'active')
    if (active.version === projection.version) return active
    if (active.version > projection.version) return null
    const [building] = await transaction<Build[]>`
      select ${columns(transaction)} from gatelog.build
      where model = ${projection.name} and version = ${projection.version} order by build desc limit 1`
    return building ?? makeBuild(transaction, projection, 'building')
  }) as Promise<Build | null>

/**
 * A new build beside the active one, for a rebuild. Removes what earlier rebuilds left unfinished: the caller holds the
 * rebuild lock.
 */
export const beginRebuild = (sql: Sql, projection: AnyProjection): Promise<Build> =>
  sql.begin(async (transaction) => {
    await lockBuilds(transaction, projection.name)
    await removeUnfinished(transaction, projection)
    return makeBuild(transaction, projection, 'building')
  }) as Promise<Build>

const removeUnfinished = async (sql: Transaction, projection: AnyProjection): Promise<void> => {
  const left = await sql<Build[]>`
    select ${columns(sql)} from gatelog.build where model = ${projection.name} and state = 'building'`
  for (const build of left) await dropBuild(sql, build)
}

const makeBuild = async (sql: Transaction, projection: AnyProjection, state: Build['state']): Promise<Build> => {
  const { name, version, topic, schema } = projection
  const [{ build } = { build: 1 }] = await sql<{ build: number }[]>`
    select coalesce(max(build), 0) + 1 as build from gatelog.build where model = ${name}`
  const schemaName = `${name}_v${version}_b${build}`
  await sql`drop schema if exists ${sql(schemaName)} cascade`
  await sql`create schema ${sql(schemaName)}`
  await sql`set local search_path to ${sql(schemaName)}`
  await sql.unsafe(schema)
  await sql`set local search_path to default`
  await sql`
    insert into gatelog.build (model, build, version, topic, schema_name, state)
    values (${name}, ${build}, ${version}, ${topic}, ${schemaName}, ${state})`
  return { model: name, build, version, schemaName, state }
}

/** False when the tables of a build were dropped. */
const hasSchema = async (sql: Transaction, { schemaName }: Build): Promise<boolean> => {
  const [row] = await sql<{ there: boolean }[]>`select to_regnamespace(${`"${schemaName}"`}) is not null as there`
  return row!.there
}

const dropBuild = async (sql: Transaction, { model, build, schemaName }: Build): Promise<void> => {
  await sql`delete from gatelog.build where model = ${model} and build = ${build}`
  await sql`drop schema if exists ${sql(schemaName)} cascade`
}

export interface Activation {
  readonly sql: Sql
  readonly projection: AnyProjection
  /** The followers of the active build go on meanwhile. */
  readonly build: Build
  /** The end of a partition, so that the switch does not wait for what a replaced log never had. */
  endOf(partition: number): Promise<number>
}

const LEVEL_WITHIN_MS = 10_000
const LEVEL_POLL_MS = 5

/**
 * Makes a build the one that readers use and drops the one before, in one transaction: a reader never sees half of it,
 * nor a row disappear. The old build is locked until the new one has come as far; what the log no longer holds is
 * carried over from a build of the same version. False when the build was removed.
 */
export const activate = (activation: Activation): Promise<boolean> =>
  activation.sql.begin(async (transaction): Promise<boolean> => {
    const { projection, build } = activation
    await lockBuilds(transaction, build.model)
    const [own] = await transaction<{ state: Build['state'] }[]>`
      select state from gatelog.build where model = ${build.model} and build = ${build.build}`
    if (own === undefined) return false
    if (own.state === 'active') return true
    const before = await activeBuild(transaction, build.model)
    if (before !== null) {
      await untilLevel(transaction, activation, before)
      if (before.version === build.version) await projection.carryOver?.(transaction, before, build)
      await dropBuild(transaction, before)
    }
    await transaction`
      update gatelog.build set state = 'active' where model = ${build.model} and build = ${build.build}`
    return true
  }) as Promise<boolean>

interface Reached {
  readonly partition: number
  readonly next: number
}

/** The row locks keep the old build's worker from applying more; after 10 s the switch happens all the same. */
const untilLevel = async (sql: Transaction, { build, endOf }: Activation, before: Build): Promise<void> => {
  const old = await sql<Reached[]>`
    select partition, next_offset as next from gatelog.position
    where model = ${before.model} and build = ${before.build} order by partition for update`
  const goals = await Promise.all(
    old.map(async ({ partition, next }) => ({ partition, next: Math.min(next, await endOf(partition)) })),
  )
  const deadline = performance.now() + LEVEL_WITHIN_MS
  for (;;) {
    const own = await sql<Reached[]>`
      select partition, next_offset as next from gatelog.position
        where model = ${build.model} and build = ${build.build}`
    const reached = new Map(own.map(({ partition, next }) => [partition, next]))
    if (goals.every(({ partition, next }) => (reached.get(partition) ?? 0) >= next)) return
    if (performance.now() > deadline) return
    await Bun.sleep(LEVEL_POLL_MS)
  }
}

const rebuildKey = (model: string): string => `gatelog rebuild ${model}`

/** Holds the right to rebuild a read model for as long as the connection lives; null when another process has it. */
export const holdRebuild = async (sql: Sql, model: string): Promise<{ release(): Promise<void> } | null> => {
  const connection = await sql.reserve()
  const key = rebuildKey(model)
  const [row] = await connection<{ held: boolean }[]>`
    select pg_try_advisory_lock(hashtextextended(${key}, 0)) as held`
  if (row?.held !== true) {
    connection.release()
    return null
  }
  return {
    async release() {
      // A lost connection has released the lock.
      await connection`select pg_advisory_unlock(hashtextextended(${key}, 0))`.catch(() => {})
      connection.release()
    },
  }
}

/**
 * Removes the builds that a killed rebuild left, so that they hold back no segment. Does nothing while a rebuild runs.
 */
export const removeAbandonedBuilds = async (sql: Sql, projection: AnyProjection): Promise<void> => {
  await sql.begin(async (transaction) => {
    const [row] = await transaction<{ free: boolean }[]>`
      select pg_try_advisory_xact_lock(hashtextextended(${rebuildKey(projection.name)}, 0)) as free`
    if (row?.free !== true) return
    await lockBuilds(transaction, projection.name)
    const active = await activeBuild(transaction, projection.name)
    // Beside an active build of another version the worker's own build is being made.
    if (active?.version === projection.version) await removeUnfinished(transaction, projection)
  })
}

export interface BuildProgress {
  readonly model: string
  readonly version: number
  readonly state: Build['state']
  readonly partitions: number
  readonly records: number
}

/** Each build and how many records it has applied, for `/ready` and `verify`. */
export const buildProgress = (sql: Sql): Promise<BuildProgress[]> =>
  within(
    sql<BuildProgress[]>`
      select b.model, b.version, b.state, count(p.partition)::int as partitions,
        coalesce(sum(p.next_offset), 0)::bigint as records
      from gatelog.build b left join gatelog.position p using (model, build)
      group by b.model, b.build, b.version, b.state order by b.model, b.build`,
    2_000,
  )
