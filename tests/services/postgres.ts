// A real Postgres for tests: the embedded one in a temporary folder, or the one that the runner has started.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDatabase, targetOf } from '../../projections/database.ts'
import type { Diagnostics } from '../../src/lib/process/diagnostics.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/upkeep/postgres/embedded-postgres.ts'
import { chooseAccount, placeFor, prepareInstallation } from '../../src/upkeep/postgres/install.ts'
import { DATABASE, ROLE } from '../../src/upkeep/postgres/role.ts'
import { runSingleUser } from '../../src/upkeep/postgres/server.ts'

export const silent: Diagnostics = { debug() {}, info() {}, warn() {}, error() {} }

export interface PostgresService {
  /** The same after every start. */
  readonly url: string
  stop(): Promise<void>
  start(): Promise<void>
  /** Stops it and removes its folder. */
  remove(): Promise<void>
}

/** What its superuser does in the cluster of a stopped server. */
export const administer = async (dataDir: string, ...statements: string[]): Promise<void> => {
  const folder = join(dataDir, 'postgres')
  const account = chooseAccount(join(folder, 'data'))
  const place = placeFor(folder, account)
  const installation = prepareInstallation(place, account)
  const { signal } = new AbortController()
  await runSingleUser({ cluster: join(place, 'data'), account, installation, signal }, DATABASE, statements)
}

/**
 * A server of one's own, ready. It also ends when this process does. `makesDatabases`: its role may do so, other than
 * the gateway's.
 */
export const startPostgres = async ({ makesDatabases = false } = {}): Promise<PostgresService> => {
  const dataDir = mkdtempSync(join(tmpdir(), 'gatelog-postgres-'))
  let server: EmbeddedPostgres = startEmbeddedPostgres({ dataDir, diagnostics: silent })
  await server.whenReady
  if (makesDatabases) {
    await server.stop()
    await administer(dataDir, `alter role ${ROLE} createdb`)
    server = startEmbeddedPostgres({ dataDir, diagnostics: silent })
    await server.whenReady
  }
  const { url } = server
  return {
    url,
    stop: () => server.stop(),
    async start() {
      server = startEmbeddedPostgres({ dataDir, diagnostics: silent })
      await server.whenReady
      if (server.url !== url) throw new Error('another program took the socket of the test Postgres meanwhile')
    },
    async remove() {
      await server.stop()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** The URL of the same server through a port of loopback. */
export const throughPort = (url: string, port: number): string => {
  const near = new URL(url)
  near.search = ''
  near.host = `127.0.0.1:${port}`
  return near.href
}

/** The path of its socket. */
export const socketOf = (url: string): string => targetOf(url).path ?? ''

export interface TestDatabase {
  readonly url: string
  remove(): Promise<void>
}

/**
 * An empty, separate database on the server that `GATELOG_TEST_POSTGRES` names, otherwise on a server started for it.
 */
export const sharedPostgres = async (): Promise<TestDatabase> => {
  const given = process.env.GATELOG_TEST_POSTGRES
  const own = given === undefined || given === '' ? await startPostgres({ makesDatabases: true }) : null
  const server = own?.url ?? given!
  const name = `test_${Bun.randomUUIDv7().replaceAll('-', '')}`
  const administer = async (statement: string) => {
    const sql = openDatabase({ url: server, name: 'gatelog-test', maxConnections: 1, statementTimeoutMs: null })
    await sql.unsafe(statement).finally(() => sql.end({ timeout: 1 }))
  }
  await administer(`create database ${name}`)
  const url = new URL(server)
  url.pathname = `/${name}`
  return {
    url: url.href,
    async remove() {
      try {
        await administer(`drop database if exists ${name} with (force)`)
      } finally {
        await own?.remove()
      }
    },
  }
}
