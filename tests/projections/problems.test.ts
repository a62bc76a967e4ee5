// What an operator reads when Postgres cannot be used.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openDatabase, pingError, StoreTimeout } from '../../projections/database.ts'
import { databaseProblem } from '../../projections/problems.ts'
import { hangingUp, type Listener, saying, silentListener } from '../lib/listeners.ts'
import { type PostgresService, startPostgres } from '../services/postgres.ts'

let server: PostgresService
const listeners: Listener[] = []
beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(async () => {
  for (const listener of listeners) listener.stop()
  await server.remove()
})

const at = (listener: Listener, query = '') => {
  listeners.push(listener)
  return `postgres://gate:pass-word@127.0.0.1:${listener.port}/x${query}`
}

const problemAt = async (url: string, text = 'select 1', ms = 5_000): Promise<string> => {
  const sql = openDatabase({ url, name: 'gatelog-test', maxConnections: 1, statementTimeoutMs: null })
  try {
    const error = await (text === 'select 1' ? pingError(sql, ms) : sql.unsafe(text).then(String, (error) => error))
    return databaseProblem(error)
  } finally {
    await sql.end({ timeout: 0 })
  }
}

test('a wrong password, a user without a rule, a missing database and a missing right are named', async () => {
  const { url } = server
  expect(await problemAt(url.replace(/gateway:[^@]+/, 'gateway:wrong'))).toMatch(/password: correct them.*\(28P01\)$/)
  expect(await problemAt(url.replace('//gateway:', '//other:'))).toMatch(/pg_hba\.conf.*\(28000\)$/)
  expect(await problemAt(url.replace('/postgres?', '/nothing?'))).toMatch(/does not exist: create it.*\(3D000\)$/)
  expect(await problemAt(url, 'create role other')).toMatch(/may not do this.*\(42501\)$/)
})

const CASES: readonly [what: string, url: () => string, problem: RegExp][] = [
  ['nobody there', () => 'postgres://gate:pass-word@127.0.0.1:1/x', /nothing listens.*\(ECONNREFUSED\)$/],
  ['no such name', () => 'postgres://gate:pass-word@no.such.host.invalid/x', /cannot be resolved/],
  ['no socket', () => 'postgres://gate:pass-word@localhost/x?host=/nowhere', /socket does not exist.*\(ENOENT\)$/],
  ['no TLS where it is required', () => at(saying('N'), '?sslmode=require'), /offers no TLS.*\(TLS_REFUSED\)$/],
  ['a request for the password in cleartext', () => at(saying('R\0\0\0\b\0\0\0\u0003')), /Use SCRAM.*sslmode=require/],
]

test.each(CASES)('%s is named, with what to do', async (_, url, problem) => {
  const found = await problemAt(url())
  expect(found).toMatch(problem)
  expect(found).not.toContain('pass-word')
})

test('a server that is silent or hangs up is one that does not answer in time', async () => {
  for (const listener of [silentListener(), hangingUp()])
    expect(await problemAt(at(listener), 'select 1', 200)).toMatch(/does not answer in time.*host and port/)
  expect(databaseProblem(new StoreTimeout('late'))).toContain('does not answer in time')
})
