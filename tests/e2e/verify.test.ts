// `gateway verify` on a real gateway: running, stopped, and with an altered log and altered read models. And states of
// the past, read over HTTP.
import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openDatabase, pingError, type Sql } from '../../projections/database.ts'
import { openReadStore } from '../../src/composition/read-store.ts'
import { loadConfig } from '../../src/config/schema.ts'
import { placeOf } from '../../src/upkeep/postgres/install.ts'
import { besideGateway, runCommand } from '../services/command.ts'
import { eventually } from '../services/eventually.ts'
import { type GatewayProcess, startGateway } from '../services/gateway.ts'
import { silent } from '../services/postgres.ts'
import { verified } from '../services/verified.ts'

const REQUESTS = 5

let gateway: GatewayProcess
beforeAll(async () => {
  gateway = startGateway()
  await gateway.until('ready', 180_000)
}, 200_000)
afterAll(() => gateway.remove(), 40_000)

const verify = () => verified(gateway.folder)

const ask = async (path: string, method = 'GET', body?: unknown) => {
  const answer = await gateway.request(`/admin/v1${path}`, { method, body })
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Record<string, unknown> }
}

test('all agrees while the gateway is up, and when it is down; the past is asked over HTTP meanwhile', async () => {
  const made = await ask('/tenants', 'POST', { slug: 'acme', name: 'Before' })
  const first = made.headers.get('x-gateway-revision')!
  const changed = await ask(`/tenants/${made.body.id}`, 'PUT', { name: 'After' })
  const revision = changed.headers.get('x-gateway-revision')!
  const then = await ask(`/tenants/${made.body.id}?as_of=${first}`)
  expect([then.status, then.headers.get('x-gateway-as-of'), then.body]).toEqual([200, first, made.body])
  expect((await ask('/providers?as_of=2000-01-01')).status).toBe(404)
  expect((await ask('/log?limit=1')).body).toMatchObject({ decisions: [{ id: revision, verdict: 'counted' }] })
  const reverted = await ask(`/log/${revision}/revert`, 'POST')
  const tip = reverted.headers.get('x-gateway-revision')!
  expect((await ask(`/tenants/${made.body.id}`)).body).toMatchObject({ name: 'Before' })

  for (let sent = 0; sent < REQUESTS; sent++) {
    const body = { model: 'sandbox-echo', messages: [{ role: 'user', content: 'hello' }] }
    expect((await gateway.request('/v1/chat/completions', { body })).status).toBe(200)
  }
  await eventually('the request log has them', async () => {
    const { body } = await ask('/requests')
    return (body.requests as unknown[] | undefined)?.length === REQUESTS && (await ask('/audit')).status === 200
  })

  const up = await verify()
  expect([up.code, up.lines]).toEqual([0, []])
  expect(up.value('gateway.requests.v1')).toMatch(new RegExp(`^ *${REQUESTS} `))
  expect(up.value('request log, of those')).toBe(up.value('gateway.requests.v1')!)
  expect([up.value('tip'), up.value('lost'), up.value('forged')]).toEqual([tip, '0', '0'])
  expect([up.value('data keys'), up.value('secrets without their key')]).toEqual(['0', '0'])
  await gateway.end('SIGTERM')
  const down = await verify()
  expect([down.code, down.lines]).toEqual([0, []])
  const digest = (report: typeof up) => report.value('state digest \\(full replay\\)')
  expect(digest(down)).toBe(digest(up)!)
  expect(down.value('snapshot')).toMatch(/^equal, at \d+$/)
  expect(Number(down.value('audit rows as the chain gives them'))).toBeGreaterThan(5)
}, 240_000)

/** Runs it on the read models of the gateway that is down. */
const inPostgres = async (run: (sql: Sql) => Promise<unknown>): Promise<void> => {
  const { config } = loadConfig({ file: null, env: { GATEWAY_DATA_DIR: join(gateway.folder, 'data') } })
  const store = openReadStore(config, silent)
  const sql = openDatabase({ url: store.url, name: 'test', maxConnections: 1, statementTimeoutMs: null })
  await eventually('Postgres answers', async () => (await pingError(sql, 1_000)) === null)
  await run(sql)
  await sql.end()
  await store.close()
}

test('an edited row of the audit log is reported with its place', async () => {
  let actor = ''
  const edit = (name: string) =>
    inPostgres(async (sql) => {
      const [build] = await sql<{ name: string }[]>`
        select schema_name as name from gatelog.build where model = 'audit' and state = 'active'`
      const table = sql(`${build!.name}.audit_event`)
      actor = (await sql<{ actor_id: string }[]>`select actor_id from ${table} where log_offset = 1`)[0]!.actor_id
      await sql`update ${table} set actor_id = ${name} where log_offset = 1 and event_index = 0`
    })
  await edit('somebody')
  const { code, lines } = await verify()
  expect([code, lines]).toEqual([1, ['gatelog: the audit log differs from the chain at event 0 at offset 1: actor_id']])
  await edit(actor)
}, 240_000)

test('a deleted request is reported with its place, and so is what usage then counts too much', async () => {
  const edit = (statement: (schema: string) => string) =>
    inPostgres(async (sql) => {
      const [build] = await sql<{ name: string }[]>`
        select schema_name as name from gatelog.build where model = 'requests' and state = 'active'`
      await sql.unsafe(statement(`"${build!.name}"`))
    })
  await edit((schema) => `create table public.kept as select * from ${schema}.request order by log_offset limit 1`)
  await edit((schema) => `delete from ${schema}.request using public.kept where request.id = kept.id`)
  const { code, lines } = await verify()
  expect(code).toBe(1)
  expect(lines[0]).toMatch(/^gatelog: the request log lacks req_[\w-]+ from offset \d+ of gateway\.requests\.v1\/0$/)
  expect(lines.slice(1).every((line) => line.startsWith('gatelog: usage of the '))).toBe(true)
  expect(lines.length).toBeGreaterThan(3)
  await edit((schema) => `insert into ${schema}.request select * from public.kept`)
  expect((await verify()).code).toBe(0)
}, 240_000)

test('a forged record is reported with its offset: an added one harms nothing, an altered one breaks the chain', async () => {
  const database = new Database(join(gateway.folder, 'data/log', 'gateway.control.v1.sqlite'))
  const offset = database.query<{ next: number }, []>('select max(offset) + 1 as next from p0').get()!.next
  database.run('insert into p0 (offset, at_ms, key, value) values (?, ?, null, ?)', [
    offset,
    Date.now(),
    Buffer.from('x'),
  ])
  const added = await verify()
  expect([added.code, added.lines]).toEqual([
    0,
    [`gatelog: warning: offset ${offset} is unreadable (too short) and changes nothing`],
  ])
  const { value } = database.query<{ value: Uint8Array }, []>('select value from p0 where offset = 2').get()!
  database.run('update p0 set value = ? where offset = 2', [
    Buffer.from(String(Buffer.from(value)).replace('"v":1', '"v": 1')),
  ])
  database.close()
  const { code, lines } = await verify()
  expect(code).toBe(1)
  expect(lines).toContainEqual(expect.stringMatching(/^gatelog: warning: offset 2 is forged/))
  expect(lines).toContainEqual(
    expect.stringMatching(/^gatelog: offset 3 of gateway.control.v1 was decided on [0-9a-f]{12}, which is nowhere/),
  )
}, 240_000)

test('read models that no worker has made are a finding, behind the report of the chain; a rebuild makes them', async () => {
  const workerless = startGateway({ settings: { worker: { enabled: false } } })
  try {
    await workerless.until('serving')
    await workerless.end('SIGTERM')
    const { code, lines, printed, value } = await verified(workerless.folder)
    expect([code, lines]).toEqual([
      1,
      ['gatelog: the read models were never built (audit, requests, frames): start a worker or run `gateway rebuild`'],
    ])
    expect(value('tip')).toMatch(/^[0-9a-f]{64}$/)
    expect(printed).toEndWith('\n1 thing is wrong.\n')
    expect((await runCommand(['rebuild'], besideGateway(workerless.folder))).code).toBe(0)
    const rebuilt = await verified(workerless.folder)
    expect([rebuilt.code, rebuilt.lines]).toEqual([0, []])

    // Tables of another major version of Postgres are left to the next start of a gateway.
    const cluster = join(placeOf(join(workerless.folder, 'data/postgres')), 'data')
    writeFileSync(join(cluster, 'PG_VERSION'), '15\n')
    const other = await verified(workerless.folder)
    expect([other.code, other.lines]).toEqual([
      1,
      [expect.stringContaining(`the tables in ${cluster} are of Postgres 15, this build runs `)],
    ])
    expect(other.value('tip')).toBe(value('tip')!)
    expect(existsSync(join(cluster, 'PG_VERSION'))).toBe(true)
  } finally {
    await workerless.remove()
  }
}, 240_000)
