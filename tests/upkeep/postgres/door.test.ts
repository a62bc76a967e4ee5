// Who can reach the embedded Postgres: one role without rights beyond its tables, through a socket in a folder that no
// other account enters; also after an upgrade, in a long data folder, and while the server is down.
import { afterEach, beforeEach, expect, test } from 'bun:test'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { openDatabase } from '../../../projections/database.ts'
import {
  type EmbeddedPostgres,
  embeddedPostgresUrl,
  startEmbeddedPostgres,
} from '../../../src/upkeep/postgres/embedded-postgres.ts'
import { chooseAccount, placeFor, prepareInstallation } from '../../../src/upkeep/postgres/install.ts'
import { postmasterPid } from '../../../src/upkeep/postgres/leftovers.ts'
import { eventually } from '../../services/eventually.ts'
import { administer, silent, socketOf } from '../../services/postgres.ts'

const isRoot = process.getuid?.() === 0
const NOBODY = 65_534
let folder: string
let open: EmbeddedPostgres[]

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatelog-door-'))
  chmodSync(folder, 0o755)
  open = []
})
afterEach(async () => {
  await Promise.all(open.map((server) => server.stop()))
  rmSync(folder, { recursive: true, force: true })
})

const start = async (dataDir = folder): Promise<EmbeddedPostgres> => {
  const server = startEmbeddedPostgres({ dataDir, diagnostics: silent })
  open.push(server)
  await server.whenReady
  return server
}

const query = async <Row>(url: string, text: string): Promise<Row[]> => {
  const sql = openDatabase({ url, name: 'gatelog-test', maxConnections: 1, statementTimeoutMs: null })
  return (await sql.unsafe(text).finally(() => sql.end({ timeout: 1 }))) as unknown as Row[]
}

const modeOf = (path: string): number => statSync(path).mode & 0o777

/** Listening TCP ports of the processes in the cluster. */
const portsOf = (pid: number): string[] => {
  const { stdout } = Bun.spawnSync(['sh', '-c', `ls -l /proc/${pid}/fd`])
  const inodes = [...stdout.toString().matchAll(/socket:\[(\d+)\]/g)].map(([, inode]) => inode)
  const lines = ['tcp', 'tcp6'].flatMap((name) => readFileSync(`/proc/net/${name}`, 'utf8').split('\n').slice(1))
  return lines.filter((line) => inodes.includes(line.trim().split(/\s+/)[9]))
}

test('S38: the server listens on no port, and no other account enters the folder of its socket', async () => {
  const server = await start()
  const socket = socketOf(server.url)
  expect(portsOf(postmasterPid(join(folder, 'postgres', 'data'))!)).toEqual([])
  expect([modeOf(dirname(socket)), statSync(dirname(socket)).uid]).toEqual([
    0o700,
    statSync(join(folder, 'postgres', 'data')).uid,
  ])
  if (!isRoot) return
  const asOther = (program: string) => Bun.spawnSync(['sh', '-c', program], { uid: NOBODY, gid: NOBODY }).exitCode
  expect(asOther(`cd ${folder}`)).toBe(0)
  expect(asOther(`ls ${dirname(socket)} || touch ${socket}`)).not.toBe(0)
  // Nor while the server is down after a crash, and its next start has not bound the socket yet.
  process.kill(postmasterPid(join(folder, 'postgres', 'data'))!, 'SIGKILL')
  await eventually('its death is noticed', () => !server.status().ready)
  expect(asOther(`ls ${dirname(socket)} || touch ${socket}`)).not.toBe(0)
  await eventually('it is back', () => server.status().ready)
}, 60_000)

test('S38: the role of gateway and worker runs no program, reads no file, makes no role and is no superuser', async () => {
  const { url } = await start()
  const [role] = await query<object>(
    url,
    'select rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls from pg_roles where rolname = current_user',
  )
  expect(new Set(Object.values(role!))).toEqual(new Set([false]))
  for (const statement of [
    `copy (select 1) to program 'true'`,
    `create table run (line text); copy run from program 'id'`,
    `select pg_read_file('${join(folder, 'postgres', 'password')}')`,
    'create role other superuser',
    `alter role ${'gateway'} superuser`,
    'set role gatelog',
  ])
    await expect(query(url, statement)).rejects.toMatchObject({ code: '42501' })
  // The cluster's superuser has no password, and no line lets it in.
  const superuser = url.replace('postgres://gateway', 'postgres://gatelog')
  await expect(query(superuser, 'select 1')).rejects.toMatchObject({ code: '28000' })
}, 60_000)

test('S38: where a listener has taken the place of the socket, it gets no password', async () => {
  const server = await start()
  await server.stop()
  const unix = socketOf(server.url)
  const password = readFileSync(join(folder, 'postgres', 'password'), 'utf8')
  for (const request of [3, 5]) {
    const got: string[] = []
    const listener = Bun.listen<undefined>({
      unix,
      socket: {
        data(socket, bytes) {
          got.push(Buffer.from(bytes).toString('latin1'))
          if (got.length > 1) return
          const asked = Buffer.from([82, 0, 0, 0, request === 3 ? 8 : 12, 0, 0, 0, request, 1, 2, 3, 4])
          socket.write(asked.subarray(0, request === 3 ? 9 : 13))
        },
      },
    })
    await expect(query(server.url, 'select 1')).rejects.toMatchObject({ code: 'AUTH_REFUSED' })
    listener.stop(true)
    rmSync(unix, { force: true })
    expect(got).toHaveLength(1) // the name of the role and of the database
    expect(got.join('')).not.toContain(password)
  }
}, 60_000)

test('a data folder whose path is too long for a socket has a short folder elsewhere, closed to others', async () => {
  const dataDir = join(folder, 'a-data-folder-with-a-long-name'.repeat(4), 'and, "another"')
  mkdirSync(dataDir, { recursive: true })
  const first = await start(dataDir)
  const socket = socketOf(first.url)
  expect(Buffer.byteLength(socket)).toBeLessThanOrEqual(107)
  expect(socket.startsWith(folder)).toBe(false)
  expect(modeOf(dirname(socket))).toBe(0o700)
  await query(first.url, 'create table kept as select 42 as answer')
  await first.stop()
  expect(existsSync(dirname(socket))).toBe(false)
  const second = await start(dataDir)
  expect(second.url).toBe(first.url)
  expect(embeddedPostgresUrl(dataDir)).toBe(first.url)
  expect(await query<object>(second.url, 'select answer from kept')).toMatchObject([{ answer: 42 }])
  await second.stop()
  // Another account makes a folder of that name meanwhile.
  mkdirSync(dirname(socket), { mode: 0o700 })
  if (isRoot) chownSync(dirname(socket), NOBODY, NOBODY)
  else chmodSync(dirname(socket), 0o777)
  const third = await start(dataDir)
  expect(socketOf(third.url)).not.toBe(socket)
  rmSync(dirname(socket), { recursive: true })
}, 60_000)

test('names of folders with commas and quotes are quoted', async () => {
  const dataDir = join(folder, 'a, "b"')
  const server = await start(dataDir)
  expect(socketOf(server.url).startsWith(dataDir)).toBe(true)
  expect(await query<object>(server.url, 'select 1 as one')).toMatchObject([{ one: 1 }])
}, 60_000)

/** As earlier versions made it: a superuser with a password that owns the tables, and a port. */
const makeEarlierCluster = async (password: string): Promise<void> => {
  const postgres = join(folder, 'postgres')
  mkdirSync(postgres)
  const account = chooseAccount(join(postgres, 'data'))
  const place = placeFor(postgres, account)
  const { native, libraryPath } = prepareInstallation(place, account)
  const [cluster, passwordFile] = [join(place, 'data'), join(folder, 'given')]
  writeFileSync(passwordFile, password, { mode: 0o644 })
  mkdirSync(cluster, { mode: 0o700 })
  if (account !== null) chownSync(cluster, account.uid, account.gid)
  const made = Bun.spawnSync(
    [
      join(native, 'bin', 'initdb'),
      ...['-D', cluster, '-U', 'gatelog', '--pwfile', passwordFile, '--auth=scram-sha-256', '--no-instructions'],
    ],
    { ...(account ?? {}), env: { LD_LIBRARY_PATH: libraryPath, LC_ALL: 'C' }, cwd: '/' },
  )
  expect(made.stderr.toString() + made.exitCode).toEndWith('0')
  writeFileSync(join(postgres, 'password'), password, { mode: 0o600 })
  writeFileSync(join(postgres, 'port'), '41234')
  await administer(
    folder,
    'create schema build',
    'create table build.request (id serial primary key, at bigint not null) partition by range (id)',
    'create table build.request_1 partition of build.request for values from (1) to (1000)',
    'create view build.seen as select count(*) as seen from build.request',
    `create function build.twice(int) returns int language sql as 'select 2 * $1'`,
    `create type build.kind as enum ('a')`,
    'insert into build.request (at) values (7)',
    'create table kept as select 42 as answer',
  )
}

test('a cluster of an earlier version, with a port and a superuser, serves the role with its tables', async () => {
  await makeEarlierCluster('the-password-of-before')
  const { url } = await start()
  expect(await query<object>(url, 'select answer from kept')).toMatchObject([{ answer: 42 }])
  expect(
    await query<object>(url, 'insert into build.request (at) values (8) returning id, build.twice(id) as twice'),
  ).toEqual([{ id: 2, twice: 4 }] as never)
  await query(url, 'alter table build.request add column more text; drop view build.seen; drop type build.kind')
  await query(url, 'drop schema build cascade; create schema another')
  expect([existsSync(join(folder, 'postgres', 'port')), url.includes('the-password-of-before')]).toEqual([false, false])
  const before = url.replace(/gateway:[^@]+/, 'gatelog:the-password-of-before')
  await expect(query(before, 'select 1')).rejects.toMatchObject({ code: '28000' })
}, 60_000)
