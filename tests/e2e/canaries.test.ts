// No secret and no content of a conversation is found anywhere. Planted canaries are sent through every way that a
// request can take, then searched for in the data folder, every topic, Postgres, Redis, the output of the process, its
// metrics, its traces and its answers. A marker that may be found proves that each search can find something.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kafka, startKafka } from '../../infra/kafka/kafka.ts'
import { openDatabase } from '../../projections/database.ts'
import { kafkaLog } from '../../src/log/kafka/log.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { initTopics, kafkaSettings } from '../services/cluster.ts'
import { type Collector, startCollector } from '../services/collector.ts'
import { eventually } from '../services/eventually.ts'
import { ADMIN_KEY, type GatewayProcess, INFERENCE_KEY, startGateway } from '../services/gateway.ts'
import { sharedPostgres, type TestDatabase } from '../services/postgres.ts'
import { startRedis } from '../services/redis.ts'
import { startUpstream, type Upstream } from '../services/upstream.ts'

/** May be found, in every store: it names a provider. */
const MARKER = 'marker-that-may-be-found'
const MASTER_KEY = Buffer.from('canary-of-the-master-key-32bytes').toString('base64')
const PERSON = { username: 'canaryperson', password: 'canary of the password' }
const CANARIES: Record<string, string> = {
  'master key': MASTER_KEY,
  'master key, as bytes': 'canary-of-the-master-key-32bytes',
  'admin key': ADMIN_KEY,
  'inference key': INFERENCE_KEY,
  'key of a stranger': 'gw_live_canaryofastrangercanaryofastrangercan',
  credential: 'sk-canary-of-the-credential',
  'credential of the environment': 'sk-canary-of-the-environment',
  'replaced credential': 'sk-canary-of-the-former-credential',
  'header of the collector': 'canary-of-the-collector-header',
  prompt: 'canary of the prompt',
  'system prompt': 'canary of the system prompt',
  answer: 'canary of the answer',
  'tool arguments': 'canary of the tool arguments',
  'end user': 'canary-of-the-end-user',
  'broken body': 'canary of a broken body',
  'name of the operator': PERSON.username,
  password: PERSON.password,
  'guessed password': 'canary of a guessed password',
}
/**
 * What an answer may hold of what its own client has just sent or received: completions, the console’s own name, errors
 * that quote its field.
 */
const OWN = new Set([
  'prompt',
  'system prompt',
  'answer',
  'tool arguments',
  'end user',
  'broken body',
  'name of the operator',
])

let folder: string
let kafka: Kafka
let database: TestDatabase
let redis: Awaited<ReturnType<typeof startRedis>>
let collector: Collector
let upstream: Upstream
let gateway: GatewayProcess
/** Answers of inference and of the console’s doors; and those of every read. */
const answers: string[] = []
const reads: string[] = []

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'gatelog-canaries-'))
  ;[kafka, database, redis] = await Promise.all([startKafka(), sharedPostgres(), startRedis()])
  collector = startCollector()
  upstream = startUpstream()
  const settings = {
    ...kafkaSettings(kafka.bootstrap),
    ...{ database: { url: database.url }, redis: { url: redis.url }, diagnostics: { level: 'debug' } },
  }
  const { security: _, ...unsealed } = settings
  const env = { GATEWAY_SECURITY_MASTER_KEY: MASTER_KEY }
  await initTopics({ ...settings, security: { master_key: MASTER_KEY } }, folder)
  gateway = startGateway({
    settings: unsealed,
    env: {
      ...env,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_HEADERS: `x-key=${CANARIES['header of the collector']}`,
      PROVIDER_CANARY: CANARIES['credential of the environment']!,
    },
  })
  await gateway.until('ready', 60_000)
}, 240_000)

afterAll(async () => {
  await gateway?.remove()
  await collector?.stop()
  await upstream?.stop()
  await redis?.stop()
  await database?.remove()
  await kafka?.stop()
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
}, 60_000)

const admin = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
  const answer = await gateway.request(`/admin/v1${path}`, { method, body, headers })
  const text = await answer.text()
  answers.push(text)
  return { status: answer.status, headers: answer.headers, body: JSON.parse(text === '' ? 'null' : text) }
}

const PROMPT = [
  { role: 'system', content: CANARIES['system prompt'] },
  { role: 'user', content: CANARIES.prompt },
]
const ask = async (more: object = {}, init: { key?: string; headers?: Record<string, string> } = {}) => {
  const body = { model: 'm', messages: PROMPT, user: CANARIES['end user'], ...more }
  const answer = await gateway.request('/v1/chat/completions', { body, ...init })
  answers.push(await answer.text())
  return answer.status
}

/** Providers with a sealed and an environment's credential, a limit that Redis counts, an operator. */
const configure = async () => {
  const wanted = { kind: 'openai_compatible', base_url: upstream.baseUrl }
  const first = await admin('POST', '/providers', { name: MARKER, ...wanted })
  await admin('PUT', `/providers/${first.body.id}/credential`, { secret: CANARIES['replaced credential'] })
  expect((await admin('PUT', `/providers/${first.body.id}/credential`, { secret: CANARIES.credential })).status).toBe(
    200,
  )
  const second = await admin('POST', '/providers', { name: 'second', ...wanted, api_key_env: 'PROVIDER_CANARY' })
  for (const [name, provider] of [
    ['m', first],
    ['n', second],
  ] as const) {
    const prices = {
      input_cost_per_million: 1,
      output_cost_per_million: 2,
      capabilities: ['chat', 'streaming', 'tools'],
    }
    expect((await admin('POST', '/models', { name, provider_id: provider.body.id, ...prices })).status).toBe(201)
  }
  await admin('POST', '/policies', { name: 'default', tenant_id: null, rate_limits: { rpm: 1_000 } })
  const tenant = await admin('POST', '/tenants', { slug: 'acme', name: 'Acme' })
  const wantedKey = { tenant_id: tenant.body.id, name: MARKER, scopes: ['inference'] }
  const key = await gateway.request('/admin/v1/keys', { body: wantedKey })
  expect(key.status).toBe(201)
  const { plaintext } = (await key.json()) as { plaintext: string }
  CANARIES['issued key'] = plaintext
  const post = (path: string, body: unknown, cookie?: string) =>
    gateway.request(`/admin/v1/auth${path}`, { body, key: null, headers: cookie === undefined ? {} : { cookie } })
  const made = await post('/setup', { ...PERSON, confirm: PERSON.password })
  CANARIES.session = made.headers.get('set-cookie')!.split(';')[0]!.split('=')[1]!
  answers.push(await made.text())
  const guess = await post('/login', { username: PERSON.username, password: CANARIES['guessed password'] })
  answers.push(await guess.text())
}

/** Every end of a request. The provider's failure message quotes the key and the prompt, as some vendors do. */
const everyWay = async () => {
  const quoting = JSON.stringify({
    error: { message: `bad key ${CANARIES.credential}: ${CANARIES.prompt}`, type: 'x', param: null, code: null },
  })
  upstream.behave({ text: CANARIES.answer })
  expect(await ask()).toBe(200)
  expect(await ask({ stream: true }, { key: CANARIES['issued key']! })).toBe(200)
  expect(await ask({ model: 'n' }, { headers: { 'X-Gateway-Debug': 'true' } })).toBe(200)
  upstream.next({ tool: { name: 'f', arguments: JSON.stringify({ q: CANARIES['tool arguments'] }) } })
  const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }]
  expect(await ask({ tools })).toBe(200)
  for (const status of [400, 401, 429, 500]) {
    upstream.behave({ status, body: quoting })
    expect(await ask({}, { headers: { 'X-Gateway-Debug': 'true' } })).toBeGreaterThanOrEqual(400)
    await ask({ stream: true, model: 'n' })
    await admin('POST', '/policies/reload')
  }
  for (const stop of ['cut', 'error'] as const) {
    upstream.behave({ text: CANARIES.answer, stop, stopAfter: 1 })
    await ask({ stream: true })
  }
  upstream.behave({ body: `not JSON ${CANARIES.answer} ${CANARIES.credential}` })
  await ask()
  await admin('POST', '/policies/reload')
  upstream.behave({ text: CANARIES.answer })
  expect(await ask({ model: 'nobody-has-this' })).toBe(404)
  expect(await ask({}, { key: CANARIES['key of a stranger']! })).toBe(401)
  expect(await ask({ messages: CANARIES['broken body'] })).toBe(400)
  const broken = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${INFERENCE_KEY}` },
    body: `{"model": "m", "messages": ${CANARIES['broken body']}`,
  })
  expect(broken.status).toBe(400)
  answers.push(await broken.text())
}

const READS =
  `/overview /system /providers /providers/health /models /requests /errors /scores /audit /guardrails /policies /keys /tenants /budgets /overrides
  /endpoints /tools /log /feedback /operators`.split(/\s+/)

const readEverything = async () => {
  for (const path of READS) {
    const answer = await gateway.request(`/admin/v1${path}${path.includes('?') ? '' : '?limit=1000'}`)
    reads.push(await answer.text())
  }
  for (const path of ['/metrics', '/ready', '/version', '/health', '/v1/models'])
    reads.push(await (await gateway.request(path)).text())
}

/** The canary as it is, and in common encodings. */
const spellings = (canary: string): Buffer[] => {
  const bytes = Buffer.from(canary)
  const quoted = JSON.stringify(canary).slice(1, -1)
  return [
    canary,
    quoted,
    encodeURIComponent(canary),
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('hex'),
  ].map((text) => Buffer.from(text))
}
const found = (haystack: Buffer, except: ReadonlySet<string> = new Set()): string[] =>
  Object.entries(CANARIES)
    .filter(([name, canary]) => !except.has(name) && spellings(canary).some((each) => haystack.includes(each)))
    .map(([name]) => name)

const topics = async (): Promise<Buffer> => {
  const log = kafkaLog({ brokers: kafka.bootstrap, clientId: 'gatelog-test' })
  const parts: Uint8Array[] = []
  for (const { name } of Object.values(TOPICS)) {
    for (const partition of await log.partitions(name)) {
      const end = await log.end(name, partition)
      const done = new AbortController()
      if (end === 0) continue
      for await (const batch of log.read(name, partition, 0, done.signal)) {
        for (const { key, value } of batch) parts.push(Buffer.from(`${key}\n`), value ?? new Uint8Array())
        if (batch.at(-1)!.offset + 1 >= end) break
      }
      done.abort()
    }
  }
  await log.close()
  return Buffer.concat(parts)
}

const tables = async (): Promise<Buffer> => {
  const sql = openDatabase({ url: database.url, name: 'gatelog-test', maxConnections: 1, statementTimeoutMs: null })
  const names = await sql<{ schema: string; name: string }[]>`
    select schemaname as schema, tablename as name from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`
  const rows: string[] = []
  for (const { schema, name } of names)
    for (const { row } of await sql<{ row: string }[]>`select t::text as row from ${sql(schema)}.${sql(name)} t`)
      rows.push(row)
  await sql.end({ timeout: 1 })
  return Buffer.from(rows.join('\n'))
}

const inRedis = async (): Promise<Buffer> => {
  const client = new Bun.RedisClient(redis.url)
  const keys = (await client.send('KEYS', ['*'])) as string[]
  const dumps = await Promise.all(keys.map((key) => client.send('DUMP', [key])))
  client.close()
  return Buffer.from([...keys, ...dumps.map(String)].join('\n'))
}

const filesBelow = (path: string): Buffer[] =>
  readdirSync(path).flatMap((name) => {
    const inner = join(path, name)
    return statSync(inner).isDirectory() ? filesBelow(inner) : [Buffer.from(name), readFileSync(inner)]
  })

/** Waits until so many requests are in the tables. */
const untilProjected = (atLeast: number) =>
  eventually(`${atLeast} requests in the tables`, async () => {
    const { body } = await admin('GET', '/requests?limit=1')
    return body.total >= atLeast
  })

// docs/behaviour.md: "Outcomes"
test('S18: no canary is found in any store, topic, metric, trace, line or answer', async () => {
  await configure()
  await everyWay()
  await untilProjected(16)
  await readEverything()
  await gateway.end()
  const places: Readonly<Record<string, Buffer>> = {
    'data folder': Buffer.concat(filesBelow(gateway.folder)),
    topics: await topics(),
    Postgres: await tables(),
    Redis: await inRedis(),
    output: Buffer.from(gateway.output()),
    traces: Buffer.from(collector.bodies.join('\n')),
    reads: Buffer.from(reads.join('\n')),
  }
  for (const [name, canary] of Object.entries(CANARIES))
    for (const spelling of spellings(canary)) expect(found(Buffer.from(`x${spelling}x`))).toContain(name)
  const marked = Object.entries(places).filter(([, bytes]) => bytes.includes(MARKER))
  // Redis holds ids only, and one line a process.
  expect(marked.map(([place]) => place)).toEqual(
    expect.arrayContaining(['data folder', 'topics', 'Postgres', 'traces', 'reads']),
  )
  expect([places.Redis!.length > 0, places.output!.length > 0]).toEqual([true, true])
  expect(collector.headers[0]!.get('x-key')).toBe(CANARIES['header of the collector']!)
  // The list of operators shows their names to a caller with the scope to read it.
  const except: Readonly<Record<string, ReadonlySet<string>>> = { reads: new Set(['name of the operator']) }
  expect(
    Object.fromEntries(Object.entries(places).map(([place, bytes]) => [place, found(bytes, except[place])])),
  ).toEqual(Object.fromEntries(Object.keys(places).map((place) => [place, []])))
  expect(found(Buffer.from(answers.join('\n')), OWN)).toEqual([])
}, 180_000)
