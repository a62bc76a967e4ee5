// The embedded Postgres over its life: first start, stop, a killed gateway, a killed postmaster with a busy backend,
// folders that only root may enter.
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDatabase } from '../../../projections/database.ts'
import {
  type EmbeddedPostgres,
  embeddedPostgresUrl,
  PostgresHeld,
  startEmbeddedPostgres,
} from '../../../src/upkeep/postgres/embedded-postgres.ts'
import { postmasterPid } from '../../../src/upkeep/postgres/leftovers.ts'
import { eventually } from '../../services/eventually.ts'
import { silent } from '../../services/postgres.ts'

const isRoot = process.getuid?.() === 0
let folder: string
let open: EmbeddedPostgres[]
let processes: ReturnType<typeof launch>[]

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatelog-embedded-'))
  open = []
  processes = []
})
afterEach(async () => {
  for (const child of processes) child.kill('SIGKILL')
  await Promise.all(open.map((server) => server.stop()))
  rmSync(folder, { recursive: true, force: true })
})

const start = (dataDir = folder): EmbeddedPostgres => {
  const server = startEmbeddedPostgres({ dataDir, diagnostics: silent })
  open.push(server)
  return server
}

const query = async <Row>(url: string, text: string): Promise<Row[]> => {
  const sql = openDatabase({ url, name: 'gatelog-test', maxConnections: 1, statementTimeoutMs: null })
  return (await sql.unsafe(text).finally(() => sql.end({ timeout: 1 }))) as unknown as Row[]
}

const launch = (dataDir: string) =>
  Bun.spawn([process.execPath, join(import.meta.dir, 'postgres-process.ts'), dataDir], {
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true, // a process group of its own, to be killed as a whole
  })

const launched = async () => {
  const child = launch(folder)
  processes.push(child)
  const { value } = await child.stdout.getReader().read()
  return { child, url: new TextDecoder().decode(value).trim() }
}

const alive = (pid: number): boolean => {
  try {
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
  } catch {
    return false
  }
}

/** The process group, which gets what is typed at its terminal. */
const groupOf = (pid: number): string => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[2]!

describe('embedded Postgres', () => {
  test('starts in an empty folder, keeps its data, and stops without leaving a process', async () => {
    const first = start()
    expect(embeddedPostgresUrl(folder)).toBe(first.url)
    await first.whenReady
    const pid = postmasterPid(join(folder, 'postgres', 'data'))!
    await query(first.url, 'create table kept as select 42 as answer')
    await first.stop()
    expect(alive(pid)).toBe(false)
    const second = start()
    await second.whenReady
    expect(second.url).toBe(first.url)
    expect(await query<{ answer: number }>(second.url, 'select answer from kept')).toMatchObject([{ answer: 42 }])
    const password = join(folder, 'postgres', 'password')
    expect(statSync(password).mode & 0o777).toBe(0o600)
    await expect(query(second.url.replace(readFileSync(password, 'utf8'), 'guess'), 'select 1')).rejects.toThrow()
  }, 60_000)

  test('a stop ends the making of a cluster, which Ctrl-C leaves to the gateway, and says nothing of a failure', async () => {
    const failed: string[] = []
    const diagnostics = { ...silent, error: (event: string) => failed.push(event) }
    const first = startEmbeddedPostgres({ dataDir: folder, diagnostics })
    const making = join(folder, 'postgres', 'data.new')
    const pidOf = () =>
      readdirSync('/proc').find((name) => {
        try {
          return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(`initdb\0-D\0${making}`)
        } catch {
          return false
        }
      })
    await eventually('initdb runs', () => pidOf() !== undefined)
    const pid = Number(pidOf())
    expect(groupOf(pid)).not.toBe(groupOf(process.pid))
    await first.stop()
    expect([alive(pid), failed, existsSync(join(folder, 'postgres', 'data'))]).toEqual([false, [], false])
    await start().whenReady
  }, 60_000)

  test('tables of another major version are kept beside, and new ones begun; it is said once', async () => {
    const first = start()
    await first.whenReady
    await query(first.url, 'create table kept as select 42 as answer')
    await first.stop()
    const cluster = join(folder, 'postgres', 'data')
    writeFileSync(join(cluster, 'PG_VERSION'), '15\n')
    mkdirSync(`${cluster}.15`) // of an earlier time
    const made = statSync(cluster).ino
    const warned: unknown[] = []
    const second = startEmbeddedPostgres({
      dataDir: folder,
      diagnostics: { ...silent, warn: (event, fields) => warned.push([event, fields]) },
    })
    open.push(second)
    await second.whenReady
    const kept = `${cluster}.15-2`
    expect(warned).toMatchObject([['postgres_version_changed', { made: '15', kept }]])
    expect([statSync(kept).ino, readFileSync(join(kept, 'PG_VERSION'), 'utf8')]).toEqual([made, '15\n'])
    expect(await query(second.url, `select to_regclass('kept') as found`)).toMatchObject([{ found: null }])
  }, 60_000)

  test('a second process of the same folder is told that it is held', async () => {
    await start().whenReady
    expect(() => startEmbeddedPostgres({ dataDir: folder, diagnostics: silent })).toThrow(PostgresHeld)
  })

  test('ends by itself when the process group that started it is killed, and starts again', async () => {
    const { child, url } = await launched()
    await query(url, 'create table kept as select 1 as one')
    const pid = postmasterPid(join(folder, 'postgres', 'data'))!
    process.kill(-child.pid, 'SIGKILL')
    await child.exited
    const again = start()
    await again.whenReady
    expect(alive(pid)).toBe(false)
    expect(await query(again.url, 'select one from kept')).toMatchObject([{ one: 1 }])
  }, 60_000)

  test('ends by itself also when nobody starts it again', async () => {
    const { child } = await launched()
    const pid = postmasterPid(join(folder, 'postgres', 'data'))!
    child.kill('SIGKILL')
    await child.exited
    await eventually('the server ends', () => !alive(pid))
  }, 60_000)

  test('becomes ready beside a backend that outlived its postmaster', async () => {
    const { child, url } = await launched()
    const sql = openDatabase({ url, name: 'gatelog-test', maxConnections: 1, statementTimeoutMs: null })
    const [backend] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`
    sql`select count(*) from generate_series(1, 3000000000)`.catch(() => {}) // never waits, so it does not notice
    await eventually('the backend is at work', async () => {
      const [row] = await query<{ state: string }>(
        url,
        `select state from pg_stat_activity where pid = ${backend!.pid} and query like '%generate_series%'`,
      )
      return row?.state === 'active'
    })
    process.kill(postmasterPid(join(folder, 'postgres', 'data'))!, 'SIGKILL')
    process.kill(-child.pid, 'SIGKILL')
    await child.exited
    expect(alive(backend!.pid)).toBe(true)
    const again = start()
    await again.whenReady
    expect(alive(backend!.pid)).toBe(false)
    expect(await query(again.url, 'select 1 as one')).toMatchObject([{ one: 1 }])
    await sql.end({ timeout: 0 })
  }, 60_000)

  test('a pid file whose pid is now another process keeps nothing from starting', async () => {
    const first = start()
    await first.whenReady
    await first.stop()
    const pidFile = join(folder, 'postgres', 'data', 'postmaster.pid')
    await Bun.write(pidFile, `${process.pid}\n${join(folder, 'postgres', 'data')}\n`)
    await start().whenReady
  }, 60_000)

  test('comes back when it dies under a living gateway', async () => {
    const server = start()
    await server.whenReady
    process.kill(postmasterPid(join(folder, 'postgres', 'data'))!, 'SIGKILL')
    await eventually('its death is noticed', () => !server.status().ready)
    await eventually('it is back', () => server.status().ready)
    expect(await query(server.url, 'select 1 as one')).toMatchObject([{ one: 1 }])
  }, 60_000)

  test('runs below a folder that only its owner may enter; as root under another account, in a place of its own', async () => {
    const closed = join(folder, 'closed')
    const dataDir = join(closed, 'data')
    const placeOf = () => {
      const pointer = join(dataDir, 'postgres', 'location')
      return existsSync(pointer) ? readFileSync(pointer, 'utf8') : join(dataDir, 'postgres')
    }
    const run = async () => {
      mkdirSync(closed, { mode: 0o700 })
      const server = start(dataDir)
      await server.whenReady
      const place = placeOf()
      expect(statSync(join(place, 'data')).uid).not.toBe(0)
      expect(statSync(closed).mode & 0o777).toBe(0o700)
      await server.stop()
      return place
    }
    const first = await run()
    rmSync(closed, { recursive: true })
    const second = await run() // which removes folders without an owner
    expect(existsSync(join(first, 'data'))).toBe(first === second)
    rmSync(second, { recursive: true })
  }, 60_000)

  test('a data folder of mode 0700 stays closed to others', async () => {
    const dataDir = join(folder, 'private')
    mkdirSync(dataDir, { mode: 0o700 })
    chmodSync(folder, 0o755)
    await start(dataDir).whenReady
    expect(statSync(dataDir).mode & 0o007).toBe(0)
    expect(readdirSync(join(dataDir, 'postgres'))).toContain('data')
  }, 60_000)

  test('runs for an ordinary user', async () => {
    const account = isRoot ? { uid: 65_534, gid: 65_534 } : {}
    const dataDir = join(folder, 'ordinary')
    chmodSync(folder, 0o777)
    const child = Bun.spawn([process.execPath, join(import.meta.dir, 'postgres-process.ts'), dataDir], {
      ...account,
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const { value } = await child.stdout.getReader().read()
    expect(await query(new TextDecoder().decode(value).trim(), 'select 1 as one')).toMatchObject([{ one: 1 }])
    const pid = postmasterPid(join(dataDir, 'postgres', 'data'))
    child.kill('SIGKILL')
    await child.exited
    await eventually('the server ends', () => pid === null || !alive(pid))
  }, 60_000)
})
