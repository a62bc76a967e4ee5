// docs/behaviour.md: "Admin reads". A read before its tables exist waits for them, for a bounded time.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { prepareCatalogue } from '../../projections/builds.ts'
import { openDatabase, type Sql } from '../../projections/database.ts'
import { ReadStoreUnavailable, readActive } from '../../projections/reader.ts'
import { sharedPostgres, type TestDatabase } from '../services/postgres.ts'

let database: TestDatabase
let sql: Sql
beforeAll(async () => {
  database = await sharedPostgres()
  sql = openDatabase({ url: database.url, name: 'gatelog-test', maxConnections: 4, statementTimeoutMs: null })
}, 60_000)
afterAll(async () => {
  await sql.end({ timeout: 1 })
  await database.remove()
})

const read = () => readActive(sql, 'audit', async (schemaName) => schemaName)

test('a read of a model that nobody builds ends after 3 s with its reason, and waits no longer', async () => {
  const startedMs = performance.now()
  const failure = await read().catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(ReadStoreUnavailable)
  expect((failure as Error).message).toBe('the read model "audit" is being built')
  const tookMs = performance.now() - startedMs
  expect([tookMs > 2_500, tookMs < 5_500]).toEqual([true, true])
}, 20_000)

test('a read of a model that is being built waits until it is there', async () => {
  const reading = read()
  await prepareCatalogue(sql)
  await sql`
    insert into gatelog.build (model, build, version, topic, schema_name, state)
    values ('audit', 1, 1, 'gateway.control.v1', 'audit_1', 'active')`
  expect(await reading).toBe('audit_1')
}, 20_000)

test('a socket that does not exist is waited for, and then named as the problem', async () => {
  const url = 'postgres://gatelog@localhost/gatelog?host=/nonexistent/gatelog'
  const away = openDatabase({ url, name: 'gatelog-test', maxConnections: 1, statementTimeoutMs: null })
  const failure = await readActive(away, 'audit', async () => null).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(ReadStoreUnavailable)
  expect((failure as Error).message).toMatch(/^Postgres cannot be used: its socket does not exist/)
  await away.end({ timeout: 0 })
}, 20_000)

test('what Postgres refuses is not waited for', async () => {
  const wrong = new URL(database.url)
  wrong.password = 'wrong'
  const away = openDatabase({ url: wrong.href, name: 'gatelog-test', maxConnections: 1, statementTimeoutMs: null })
  const startedMs = performance.now()
  const failure = await readActive(away, 'audit', async () => null).catch((error: unknown) => error)
  expect((failure as Error).message).toMatch(/it refuses the user name or the password/)
  expect(performance.now() - startedMs).toBeLessThan(2_500)
  await away.end({ timeout: 0 })
}, 20_000)
