// Every read of requests and usage shows what the upstreams billed: a seeded run of answers, streams, failures,
// fallbacks and refusals.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createSseParser } from '../../src/lib/text/sse.ts'
import { eventually } from '../services/eventually.ts'
import { ADMIN_KEY, type GatewayProcess, startGateway } from '../services/gateway.ts'
import { type Behaviour, type Received, startUpstream, type Upstream } from '../services/upstream.ts'

const REQUESTS = 240
const AT_ONCE = 6
const TENANTS = ['first', 'second'] as const
type Tenant = (typeof TENANTS)[number]

/** Nano-USD for each token, in and out. */
const PRICES = { near: [1_500, 6_000], far: [700, 2_100] } as const
type Vendor = keyof typeof PRICES
const VENDORS = Object.keys(PRICES) as Vendor[]

interface Bill {
  calls: number
  answered: number
  promptTokens: number
  completionTokens: number
  nanoUsd: number
}
const newBill = (): Bill => ({ calls: 0, answered: 0, promptTokens: 0, completionTokens: 0, nanoUsd: 0 })
const billOf = <Name extends string>(names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, newBill()])) as Record<Name, Bill>

const SEED = 20_261_122
/** From 0 to 1, the same for the same words. */
const drawn = (words: string): number => Number(Bun.hash(`${SEED} ${words}`) % 1_000_000n) / 1_000_000

const byVendor = billOf(VENDORS)
const byTenant = billOf(TENANTS)
/** What clients saw. */
const seen = { statuses: [] as number[], byTenant: { first: 0, second: 0 }, fallbacks: 0 }
const upstreams = {} as Record<Vendor, Upstream>
const keys = {} as Record<Tenant, { inference: string; reader: string }>
let gateway: GatewayProcess
let tail: Promise<RequestRow[]>

interface RequestRow {
  readonly id: string
  readonly status: number
  readonly outcome: string
  readonly provider: string | null
  readonly prompt_tokens: number | null
  readonly completion_tokens: number | null
  readonly cost_usd: number | null
}

/** How often each upstream received the same request. */
const times = new Map<string, number>()

/** Answers, fails or refuses, and writes the bill. */
const billed =
  (vendor: Vendor) =>
  ({ text, path }: Received): Behaviour => {
    if (!path.endsWith('/chat/completions')) return {}
    const [name, tenant] = /request \d+ of (\w+)/.exec(text) as unknown as [string, Tenant]
    const bills = [byVendor[vendor], byTenant[tenant]]
    for (const bill of bills) bill.calls += 1
    const asked = (times.get(`${vendor} ${name}`) ?? 0) + 1
    times.set(`${vendor} ${name}`, asked)
    const below = (what: string, bound: number) => Math.floor(bound * drawn(`${vendor} ${name} ${asked} ${what}`))
    if (text.includes('malformed')) return { status: 400 }
    if (below('fails', 4) === 0) return { status: 503 }
    const usage = { prompt: 1 + below('prompt', 2_000), completion: 1 + below('completion', 700) }
    const [input, output] = PRICES[vendor]
    for (const bill of bills) {
      bill.answered += 1
      bill.promptTokens += usage.prompt
      bill.completionTokens += usage.completion
      bill.nanoUsd += usage.prompt * input + usage.completion * output
    }
    return { usage, chunks: 1 + below('chunks', 5) }
  }

const admin = async <Body = Record<string, unknown>>(path: string, body?: unknown, key = ADMIN_KEY): Promise<Body> => {
  const answer = await gateway.request(`/admin/v1${path}`, { body, key })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`)
  return JSON.parse(text) as Body
}

const prepare = async () => {
  for (const [priority, name] of VENDORS.entries()) {
    upstreams[name] = startUpstream()
    upstreams[name].behave(billed(name))
    const { id } = await admin('/providers', {
      name,
      kind: 'openai_compatible',
      base_url: upstreams[name].baseUrl,
      usage_on_stream: true,
    })
    const [input, output] = PRICES[name]
    await admin('/models', {
      name: 'small',
      provider_id: id,
      priority,
      input_cost_per_million: input / 1_000,
      output_cost_per_million: output / 1_000,
      capabilities: ['chat', 'streaming'],
      context_window: 100_000,
      max_output_tokens: 1_000,
    })
  }
  await admin('/policies', { name: 'default', strategy: 'priority', breaker: { failure_threshold: 1_000 } })
  for (const slug of TENANTS) {
    const { id: tenant_id } = await admin<{ id: string }>('/tenants', { slug, name: slug })
    const issued = async (scopes: string[]) =>
      (await admin('/keys', { tenant_id, name: scopes[0], scopes })).plaintext as string
    keys[slug] = { inference: await issued(['inference']), reader: await issued(['usage:read']) }
  }
}

/** One request of the run. */
const send = async (index: number): Promise<void> => {
  const tenant = TENANTS[Math.floor(2 * drawn(`${index} tenant`))]!
  const stream = drawn(`${index} stream`) < 0.4
  const kind = drawn(`${index} kind`) < 0.1 ? 'malformed' : 'plain'
  const isCapped = drawn(`${index} cap`) < 0.1
  const content = `${kind} request ${index} of ${tenant}`
  const answer = await gateway.request('/v1/chat/completions', {
    key: keys[tenant].inference,
    body: { model: 'small', messages: [{ role: 'user', content }], stream },
    headers: isCapped ? { 'X-Gateway-Max-Cost-USD': '0.000000001' } : {},
  })
  seen.statuses.push(answer.status)
  seen.byTenant[tenant] += 1
  await answer.text()
  if (answer.headers.get('x-gateway-provider') === 'far') seen.fallbacks += 1
}

/** Rows of the tail until all are there. */
const followTail = async (): Promise<RequestRow[]> => {
  const answer = await gateway.request('/admin/v1/requests/stream')
  expect(answer.headers.get('content-type')).toBe('text/event-stream')
  const parser = createSseParser()
  const rows: RequestRow[] = []
  for await (const bytes of answer.body!) {
    rows.push(...parser.push(bytes).map(({ data }) => JSON.parse(data) as RequestRow))
    if (rows.length >= REQUESTS) break
  }
  return rows
}

beforeAll(async () => {
  gateway = startGateway({ settings: { health: { probe_interval: 'off' } } })
  await gateway.until('ready')
  await prepare()
  await eventually('the read model is made', async () => (await gateway.request('/admin/v1/requests')).ok)
  tail = followTail()
  const left = Array.from({ length: REQUESTS }, (_, index) => index)
  const work = async () => {
    for (let index = left.shift(); index !== undefined; index = left.shift()) await send(index)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  await eventually(
    'all requests are in it',
    async () => ((await admin('/requests?limit=1')).total as number) >= REQUESTS,
  )
}, 120_000)
afterAll(async () => {
  await gateway.remove()
  for (const upstream of Object.values(upstreams)) await upstream.stop()
}, 60_000)

const sum = <Row>(rows: readonly Row[], of: (row: Row) => number | null): number =>
  rows.reduce((total, row) => total + (of(row) ?? 0), 0)
const nano = (usd: number | null): number => Math.round((usd ?? 0) * 1e9)
const total = (bills: Record<string, Bill>) => {
  const all = Object.values(bills)
  return {
    requests: REQUESTS,
    prompt_tokens: sum(all, ({ promptTokens }) => promptTokens),
    completion_tokens: sum(all, ({ completionTokens }) => completionTokens),
    nano_usd: sum(all, ({ nanoUsd }) => nanoUsd),
  }
}
interface Figures {
  readonly requests: number
  readonly errors: number
  readonly fallbacks: number
  readonly attempts: number
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly cost_usd: number
}
const sums = (rows: readonly Figures[]) => ({
  requests: sum(rows, ({ requests }) => requests),
  prompt_tokens: sum(rows, ({ prompt_tokens }) => prompt_tokens),
  completion_tokens: sum(rows, ({ completion_tokens }) => completion_tokens),
  nano_usd: sum(rows, ({ cost_usd }) => nano(cost_usd)),
})
const rowSums = (rows: readonly RequestRow[]) => ({
  requests: new Set(rows.map(({ id }) => id)).size,
  prompt_tokens: sum(rows, ({ prompt_tokens }) => prompt_tokens),
  completion_tokens: sum(rows, ({ completion_tokens }) => completion_tokens),
  nano_usd: sum(rows, ({ cost_usd }) => nano(cost_usd)),
})

test('the run had everything in it', () => {
  const had = new Set(seen.statuses)
  for (const status of [200, 400, 402]) expect([status, had.has(status)]).toEqual([status, true])
  expect(seen.fallbacks).toBeGreaterThan(5)
  expect(byVendor.near.calls).toBeGreaterThan(byVendor.near.answered + 20)
})

test('usage: totals, breakdowns and every series are the bill', async () => {
  const bill = total(byVendor)
  const errors = seen.statuses.filter((status) => status !== 200).length
  const summary = await admin('/usage/summary')
  const totals = summary.totals as Figures
  expect(sums([totals])).toEqual(bill)
  expect([totals.errors, totals.fallbacks, totals.attempts]).toEqual([
    errors,
    seen.fallbacks,
    byVendor.near.calls + byVendor.far.calls,
  ])
  for (const member of ['by_provider', 'by_model', 'groups'])
    expect([member, sums(summary[member] as Figures[])]).toEqual([member, bill])
  const byProvider = summary.by_provider as (Figures & { provider: string | null })[]
  for (const vendor of VENDORS) {
    const row = byProvider.find(({ provider }) => provider === vendor)!
    expect([vendor, nano(row.cost_usd), row.attempts]).toEqual([
      vendor,
      byVendor[vendor].nanoUsd,
      byVendor[vendor].calls,
    ])
  }
  for (const interval of ['1m', '5m', '1h', '1d', '1w']) {
    const { series } = await admin(`/usage/series?interval=${interval}`)
    expect([interval, sums(series as Figures[])]).toEqual([interval, bill])
  }
  for (const by of ['tenant', 'key', 'policy']) {
    const { groups } = await admin(`/usage/summary?group_by=${by}`)
    const { requests: _, ...spent } = sums(groups as Figures[])
    const { requests: __, ...wanted } = bill
    expect([by, spent]).toEqual([by, wanted])
  }
  const overview = await admin('/overview')
  expect(sums([overview.summary as Figures])).toEqual(bill)
  expect(sums(overview.series as Figures[])).toEqual(bill)
  expect(sums([overview.previous as Figures]).requests).toBe(0)
  const usage = await gateway.request('/admin/v1/usage/series?format=ndjson')
  expect(sums(linesOf(await usage.text()) as Figures[])).toEqual(bill)
})

const linesOf = (text: string): unknown[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))

test('requests: the list, the files and the stream are the bill', async () => {
  const bill = total(byVendor)
  const { requests } = await admin('/requests?limit=1000')
  expect(rowSums(requests as RequestRow[])).toEqual(bill)
  const ndjson = await (await gateway.request('/admin/v1/requests?format=ndjson')).text()
  expect(rowSums(linesOf(ndjson) as RequestRow[])).toEqual(bill)
  const [header, ...lines] = (await (await gateway.request('/admin/v1/requests?format=csv')).text())
    .trimEnd()
    .split('\r\n')
  const columns = header!.split(',')
  const rows = lines.map((line) => {
    const cells = line.split(',')
    return Object.fromEntries(columns.map((name, at) => [name, name === 'id' ? cells[at]! : Number(cells[at])]))
  })
  expect(rowSums(rows as unknown as RequestRow[])).toEqual(bill)
  expect(rowSums(await tail)).toEqual(bill)
})

test('errors: as many as clients saw, of each code', async () => {
  const failed = seen.statuses.filter((status) => status >= 400)
  const { total: count, by_code } = await admin('/errors')
  expect(count as number).toBe(failed.length)
  expect(sum(Object.values(by_code as Record<string, number>), (of) => of)).toBe(failed.length)
  expect((by_code as Record<string, number>).quota_exceeded).toBe(failed.filter((status) => status === 402).length)
})

test('a tenant sees its own part of the bill and no other', async () => {
  for (const tenant of TENANTS) {
    const { reader } = keys[tenant]
    const wanted = { ...total({ own: byTenant[tenant] }), requests: seen.byTenant[tenant] }
    const { totals } = await admin('/usage/summary', undefined, reader)
    expect([tenant, sums([totals as Figures])]).toEqual([tenant, wanted])
    const { requests } = await admin('/requests?limit=1000', undefined, reader)
    expect([tenant, rowSums(requests as RequestRow[])]).toEqual([tenant, wanted])
  }
})
