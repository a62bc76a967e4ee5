// What the read models rely on in the driver: a lost connection is an error that can be caught, and the pool goes on.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  openDatabase,
  type Sql,
  StoreTimeout,
  settled,
  storableJson,
  storableText,
  within,
} from '../../projections/database.ts'
import { sharedPostgres, type TestDatabase } from '../services/postgres.ts'

let database: TestDatabase
let sql: Sql

beforeAll(async () => {
  database = await sharedPostgres()
  sql = openDatabase({ url: database.url, name: 'gatelog-test', maxConnections: 2, statementTimeoutMs: 500 })
}, 60_000)
afterAll(async () => {
  await sql.end({ timeout: 1 })
  await database.remove()
}, 60_000)

const killerOf = () =>
  openDatabase({ url: database.url, name: 'gatelog-killer', maxConnections: 1, statementTimeoutMs: null })

describe('the driver', () => {
  test('a dead connection answers nothing that is asked on it, again and again, and never ends the process (patches/)', async () => {
    const killer = killerOf()
    const reserved = await sql.reserve()
    const [own] = await reserved<{ pid: number }[]>`select pg_backend_pid() as pid`
    await killer`select pg_terminate_backend(${own!.pid})`
    // Now and then the driver leaves a later query unanswered: the test abandons it, as the product does with its
    // queries.
    for (let again = 0; again < 3; again++)
      await expect(within(Promise.resolve(reserved`select 1`), 2_000)).rejects.toThrow()
    reserved.release()
    expect(await sql<{ one: number }[]>`select 1 as one`).toMatchObject([{ one: 1 }])
    expect(
      await Promise.all([1, 2, 3, 4].map(() => sql.begin((transaction) => transaction`select 1 as one`))),
    ).toHaveLength(4)
    await killer.end()
  })

  test('a transaction whose connection dies is rejected, and the next one works', async () => {
    const killer = killerOf()
    const dying = sql.begin(async (transaction) => {
      const [own] = await transaction<{ pid: number }[]>`select pg_backend_pid() as pid`
      await killer`select pg_terminate_backend(${own!.pid})`
      await transaction`select 1`
    })
    await expect(Promise.resolve(dying)).rejects.toThrow()
    expect(await sql.begin((transaction) => transaction<{ two: number }[]>`select 2 as two`)).toMatchObject([
      { two: 2 },
    ])
    await killer.end()
  })

  test('a statement has its bound in the server, an answer its bound here', async () => {
    await expect(Promise.resolve(sql`select pg_sleep(5)`)).rejects.toMatchObject({ code: '57014' })
    await expect(within(Promise.resolve(sql`select pg_sleep(0.4)`), 20)).rejects.toThrow(StoreTimeout)
  })

  test('what is not answered is given up, and the next query has a connection', async () => {
    const own = openDatabase({ url: database.url, name: 'gatelog-test', maxConnections: 1, statementTimeoutMs: null })
    const stuck = own`select pg_sleep(60)`
    stuck.catch(() => {})
    await expect(settled(own, Promise.resolve(stuck), 50)).rejects.toThrow(StoreTimeout)
    expect(await own<{ one: number }[]>`select 1 as one`).toMatchObject([{ one: 1 }])
    await own.end({ timeout: 0 })
  })

  test('bigints are numbers, and any text can be stored once it is made storable', async () => {
    expect(await sql`select 9007199254740991::bigint as most`).toMatchObject([{ most: Number.MAX_SAFE_INTEGER }])
    const text = storableText('nul \0 half \ud800')
    const json = storableJson({ 'a\0': ['\ud800', null, 1.5] })
    const [row] = await sql<
      { text: string; json: unknown }[]
    >`select ${text}::text as text, ${json}::text::jsonb as json`
    expect(row).toMatchObject({ text: 'nul \uFFFD half \uFFFD', json: { 'a\uFFFD': ['\uFFFD', null, 1.5] } })
  })
})
