// The consumers of examples/consumers, run as a user runs them, against a real broker. Their results match Gatelog's
// own outcomes and the upstream's bill, with repeats, a second settlement, and a second run that continues where the
// first ended.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kafka, startKafka } from '../../infra/kafka/kafka.ts'
import type { RequestSettled } from '../../src/domain/events/request.ts'
import { type Envelope, readEnvelope } from '../../src/log/envelope.ts'
import { kafkaLog } from '../../src/log/kafka/log.ts'
import type { EventLog } from '../../src/log/port.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { initTopics, kafkaSettings } from '../services/cluster.ts'
import { type GatewayProcess, startGateway } from '../services/gateway.ts'
import { pythonWith, runToEnd } from '../services/python.ts'
import { startUpstream, type Upstream } from '../services/upstream.ts'

const EXAMPLES = join(import.meta.dir, '../../examples/consumers')
const TOPIC = TOPICS.requests.name
/** USD for a million tokens, and nano-USD for one. */
const PRICE = { input: 3, output: 15 }
const nanoOf = (prompt: number, completion: number) => prompt * PRICE.input * 1_000 + completion * PRICE.output * 1_000

let folder: string
let kafka: Kafka
let upstream: Upstream
let gateway: GatewayProcess
let log: EventLog
let packages: string
const bill = { prompt: 0, completion: 0 }
const keys: string[] = []
let sent = 0

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'gatelog-consumers-'))
  const [broker, ...installed] = await Promise.all([
    startKafka({ dataDir: join(folder, 'kafka'), properties: { 'group.initial.rebalance.delay.ms': '0' } }),
    pythonWith('kafka-python', '3.0.12'),
    pythonWith('duckdb', '2.0.0'),
    pythonWith('lz4', '4.4.5'),
  ])
  kafka = broker
  packages = installed.join(':')
  upstream = startUpstream()
  let calls = 0
  upstream.behave(({ path }) => {
    if (!path.endsWith('/chat/completions')) return {} // a probe: it is not billed
    const usage = { prompt: 11 + (calls % 7), completion: 5 + (calls++ % 13) }
    bill.prompt += usage.prompt
    bill.completion += usage.completion
    return { usage }
  })
  const settings = { ...kafkaSettings(kafka.bootstrap), worker: { enabled: false } }
  await initTopics(settings, folder)
  log = kafkaLog({ brokers: kafka.bootstrap, clientId: 'gatelog-test' })
  gateway = startGateway({ settings })
  await gateway.until('serving', 60_000)
  await configure()
}, 240_000)

afterAll(async () => {
  await gateway?.remove()
  await log?.close()
  await upstream?.stop()
  await kafka?.stop()
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
}, 60_000)

const made = async (path: string, body: unknown): Promise<{ id: string; plaintext: string }> => {
  const answer = await gateway.request(`/admin/v1${path}`, { body })
  if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
  return (await answer.json()) as { id: string; plaintext: string }
}

/** One priced model, and three tenants with a key each. */
const configure = async () => {
  const wanted = { name: 'up', kind: 'openai_compatible', base_url: upstream.baseUrl, usage_on_stream: true }
  const provider = await made('/providers', wanted)
  const prices = { input_cost_per_million: PRICE.input, output_cost_per_million: PRICE.output }
  await made('/models', { name: 'm', provider_id: provider.id, ...prices })
  for (const slug of ['ares', 'bias', 'cleo']) {
    const { id } = await made('/tenants', { slug, name: slug })
    keys.push((await made('/keys', { tenant_id: id, name: 'app', scopes: ['inference'] })).plaintext)
  }
}

const ask = async (key: string, more: object = {}): Promise<number> => {
  sent++
  const body = { model: 'm', messages: [{ role: 'user', content: 'Hello' }], ...more }
  const answer = await gateway.request('/v1/chat/completions', { key, body, headers: { 'X-Request-ID': 'the-same' } })
  await answer.text()
  return answer.status
}

interface Found {
  readonly partition: number
  readonly value: Uint8Array
  readonly envelope: Envelope
}

/** Every record of the topic, once it holds the settlements of everything that was sent. */
const records = async (): Promise<Found[]> => {
  const found: Found[] = []
  const seen = new Set<string>()
  const done = new AbortController()
  const follow = async (partition: number) => {
    for await (const batch of log.read(TOPIC, partition, 0, done.signal)) {
      for (const { value } of batch) {
        const envelope = readEnvelope(value!)!
        found.push({ partition, value: value!, envelope })
        if (envelope.type === 'request.settled') seen.add((envelope.data as RequestSettled).id)
      }
      if (seen.size >= sent) done.abort()
    }
  }
  await Promise.all((await log.partitions(TOPIC)).map(follow))
  return found
}

/** The truth by the outcomes: by tenant, the first settlement of each request. */
const truth = (found: readonly Found[]) => {
  const outcomes = new Map<string, RequestSettled>()
  for (const { envelope } of found) {
    const data = envelope.data as RequestSettled
    if (envelope.type === 'request.settled' && !outcomes.has(data.id)) outcomes.set(data.id, data)
  }
  const byTenant = Map.groupBy(outcomes.values(), ({ tenant_id }) => tenant_id!)
  const sum = (of: readonly RequestSettled[], name: 'cost_nano_usd' | 'prompt_tokens' | 'completion_tokens') =>
    of.reduce((total, outcome) => total + (outcome[name] ?? 0), 0)
  return [...byTenant]
    .map(([tenant_id, of]) => ({
      tenant_id,
      requests: of.length,
      prompt_tokens: sum(of, 'prompt_tokens'),
      completion_tokens: sum(of, 'completion_tokens'),
      cost_nano_usd: sum(of, 'cost_nano_usd'),
      unpriced: of.filter(({ cost_nano_usd }) => cost_nano_usd === undefined).length,
    }))
    .sort((a, b) => (a.tenant_id < b.tenant_id ? -1 : 1))
}
type Spend = ReturnType<typeof truth>

const brokers = () => kafka.bootstrap.join(',')
const python = (script: string, ...args: string[]) =>
  runToEnd(['python3', join(EXAMPLES, 'python', script), '--brokers', brokers(), ...args], {
    PYTHONPATH: packages,
    PYTHONDONTWRITEBYTECODE: '1',
  })
const CONSUMERS: readonly { readonly name: string; run(state: string): Promise<{ read: number; spend: Spend }> }[] = [
  { name: 'python', run: async (state) => JSON.parse(await python('spend.py', '--state', state)) },
  {
    name: 'typescript',
    run: async (state) => {
      const script = join(EXAMPLES, 'typescript/spend.ts')
      return JSON.parse(await runToEnd([process.execPath, script, '--brokers', brokers(), '--state', state]))
    },
  },
]
const stateOf = (name: string) => join(folder, `${name}.db`)

test('spend by tenant is what the outcomes say and what the upstream would bill', async () => {
  for (let n = 0; n < 60; n++) expect(await ask(keys[n % 3]!, n % 4 === 0 ? { stream: true } : {})).toBe(200)
  expect(await ask(keys[0]!, { model: 'nobody-has-this' })).toBe(404)
  const wanted = truth(await records())
  expect(wanted).toHaveLength(3)
  expect(wanted.reduce((total, { cost_nano_usd }) => total + cost_nano_usd, 0)).toBe(
    nanoOf(bill.prompt, bill.completion),
  )
  for (const { name, run } of CONSUMERS)
    expect([name, await run(stateOf(name))]).toEqual([name, { read: sent, spend: wanted }])
}, 120_000)

test('repeats and second settlements change nothing, and the next run reads only what is new', async () => {
  const before = await records()
  const settled = before.filter(({ envelope }) => envelope.type === 'request.settled')
  const wantedBefore = truth(before)
  // A batch that was sent again, and a request that another process settled once more.
  for (const { partition, value } of settled.slice(0, 5)) await log.append(TOPIC, partition, [{ key: null, value }])
  const { partition, envelope } = settled[7]!
  const orphan = { ...(envelope.data as RequestSettled), outcome: 'orphaned', cost_nano_usd: 999_999_999 }
  const again = JSON.stringify({ ...envelope, id: 'other.0.0', epoch: 'other', sequence: 0, data: orphan })
  await log.append(TOPIC, partition, [{ key: null, value: Buffer.from(again) }])
  for (let n = 0; n < 10; n++) await ask(keys[n % 2]!)
  const wanted = truth(await records())
  expect(wanted).not.toEqual(wantedBefore)
  for (const { name, run } of CONSUMERS) {
    expect([name, await run(stateOf(name))]).toEqual([name, { read: 5 + 1 + 10, spend: wanted }])
    expect([name, await run(stateOf(name))]).toEqual([name, { read: 0, spend: wanted }])
    expect([name, (await run(stateOf(`${name}-anew`))).spend]).toEqual([name, wanted])
  }
}, 120_000)

test('DuckDB holds each outcome once, whole, over two runs', async () => {
  const rows = async () =>
    JSON.parse(await python('load_duckdb.py', '--database', join(folder, 'requests.duckdb'))) as {
      tenant_id: string
      requests: number
      cost_nano_usd: number
    }[]
  const check = async () => {
    const seen = Map.groupBy(await rows(), ({ tenant_id }) => tenant_id)
    const total = [...seen].map(([tenant_id, of]) => ({
      tenant_id,
      requests: of.reduce((sum, { requests }) => sum + requests, 0),
      cost_nano_usd: of.reduce((sum, { cost_nano_usd }) => sum + cost_nano_usd, 0),
    }))
    const wanted = truth(await records())
    expect(total).toEqual(
      wanted.map(({ tenant_id, requests, cost_nano_usd }) => ({ tenant_id, requests, cost_nano_usd })),
    )
  }
  await check()
  await ask(keys[2]!)
  await check()
}, 60_000)
