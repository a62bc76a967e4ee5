// B9, of two tenants: a thousand requests under one `X-Request-ID`, each charged to its own tenant. No tenant reads or
// rates a request of the other. The requests go to all instances in turn; two instances have workers.
// `bun tests/faults/budgets/tenants.ts [--requests 1000] [--instances 2]`
import { eventually } from '../../services/eventually.ts'
import type { GatewayProcess } from '../../services/gateway.ts'
import { startPostgres } from '../../services/postgres.ts'
import { type Figure, numberArgument } from '../control/figures.ts'
import { COST_NANO_USD, type Rig, runRows, type Standing, TOKENS, tally, usdText } from './rig.ts'

const LABEL = 'the-same-for-all'
const AT_ONCE = 50
const PAGE = 200

interface Side {
  readonly tenantId: string
  readonly key: string
  readonly budgetId: string
  /** Of the decision that made the last of them. */
  readonly revision: string
}

type Gateways = readonly GatewayProcess[]

/** In turn. */
const of = (gateways: Gateways, i: number): GatewayProcess => gateways[i % gateways.length]!

const admin = async <Answer>(
  gateway: GatewayProcess,
  method: string,
  path: string,
  body?: unknown,
): Promise<Answer> => {
  const answer = await gateway.request(`/admin/v1${path}`, { method, body })
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
  return (await answer.json()) as Answer
}

const sideOf = async (gateway: GatewayProcess, slug: string): Promise<Side> => {
  const { id: tenant_id } = await admin<{ id: string }>(gateway, 'POST', '/tenants', { slug, name: slug })
  const scopes = ['inference', 'usage:read']
  const { plaintext } = await admin<{ plaintext: string }>(gateway, 'POST', '/keys', { tenant_id, name: slug, scopes })
  const body = { tenant_id, limit_usd: 1_000, window: 'lifetime' }
  const made = await gateway.request('/admin/v1/budgets', { method: 'PUT', body })
  const { id } = (await made.json()) as { id: string }
  return { tenantId: tenant_id, key: plaintext, budgetId: id, revision: made.headers.get('x-gateway-revision') ?? '' }
}

const chat = async (gateway: GatewayProcess, key: string, revision: string): Promise<number> => {
  const body = { model: 'm', max_tokens: TOKENS, messages: [{ role: 'user', content: 'hello' }] }
  const headers = { 'x-request-id': LABEL, 'x-gateway-min-revision': revision }
  const answer = await gateway.request('/v1/chat/completions', { key, body, headers })
  await answer.arrayBuffer()
  return answer.status
}

/** The ids of a tenant's requests, as its own key lists them. */
const idsOf = async (gateway: GatewayProcess, { key }: Side): Promise<string[]> => {
  const ids: string[] = []
  for (let offset = 0; ; offset += PAGE) {
    const answer = await gateway.request(`/admin/v1/requests?limit=${PAGE}&offset=${offset}`, { key })
    const { requests = [] } = (await answer.json()) as { requests?: { id: string }[] }
    ids.push(...requests.map(({ id }) => id))
    if (requests.length < PAGE) return ids
  }
}

/**
 * How often a key gets a row or a rating of another tenant by id; and how often the answer asks it to retry, which does
 * not reveal the owner.
 */
interface Got {
  got: number
  told: number
}

const reads = async (gateways: Gateways, { key }: Side, ids: readonly string[], sum: Got): Promise<void> => {
  for (let from = 0; from < ids.length; from += AT_ONCE) {
    const answers = await Promise.all(
      ids
        .slice(from, from + AT_ONCE)
        .flatMap((id, i) => [
          of(gateways, i).request(`/admin/v1/requests/${id}`, { key }),
          of(gateways, i).request('/v1/feedback', { key, body: { request_id: id, score: 1 } }),
        ]),
    )
    for (const answer of answers) {
      if (answer.headers.get('x-gateway-retryable') === 'true') sum.told++
      else if (answer.status !== 404) sum.got++
      await answer.arrayBuffer()
    }
  }
}

export const tenants = async ({ gateways }: Rig, count: number): Promise<Figure[]> => {
  const [gateway] = gateways as readonly [GatewayProcess]
  const sides = [await sideOf(gateway, 'first'), await sideOf(gateway, 'second')] as const
  const statuses: number[] = []
  for (let from = 0; from < count; from += AT_ONCE) {
    // Each pair goes to one instance.
    const some = Array.from({ length: AT_ONCE }, (_, i) =>
      chat(of(gateways, from / AT_ONCE + (i >> 1)), sides[i % 2]!.key, sides[1].revision),
    )
    statuses.push(...(await Promise.all(some)))
  }
  const ids = await eventually(
    'the request log holds them all',
    async () => {
      const all = [await idsOf(gateway, sides[0]), await idsOf(gateway, sides[1])] as const
      return all[0].length + all[1].length >= count ? all : null
    },
    { limitMs: 120_000, everyMs: 200 },
  )
  const rated = await gateway.request('/v1/feedback', { key: sides[0].key, body: { request_id: LABEL, score: 1 } })
  await rated.arrayBuffer()
  const strange: Got = { got: 0, told: 0 }
  await reads(gateways, sides[0], ids[1], strange)
  await reads(gateways, sides[1], ids[0], strange)
  const path = `/feedback?tenant_id=${sides[1].tenantId}`
  const { feedback } = await admin<{ feedback?: readonly unknown[] }>(gateway, 'GET', path)
  let charged = 0
  let matching = 0
  for (const { budgetId } of sides) {
    const { matches } = await admin<{ matches: boolean }>(gateway, 'POST', `/budgets/${budgetId}/verify`)
    const { spent_usd } = await admin<Standing>(gateway, 'GET', `/budgets/${budgetId}`)
    charged += Math.round((spent_usd * 1e9) / COST_NANO_USD)
    matching += matches ? 1 : 0
  }
  const seen = strange.got + (feedback?.length ?? 0)
  const asked = 2 * (ids[0].length + ids[1].length)
  return [
    {
      row: 'B9',
      what:
        `${count} requests of two tenants under one \`X-Request-ID\` (${tally(statuses)}) over ` +
        `${gateways.length} instances; each asks for and rates all of the other's by id`,
      figure:
        `charged ${charged} of ${count}, ${usdText(((count - charged) * COST_NANO_USD) / 1e9)} ` +
        `missing, accounts that match the log ${matching} of 2, reads or ratings of another tenant's ` +
        `${seen} of ${asked} (${strange.told} told to ask again)`,
      n: count,
      good: charged === count && matching === 2 && seen === 0 && asked === 2 * count && 10 * strange.told < asked,
    },
  ]
}

const postgres = await startPostgres()
const settings = { database: { url: postgres.url } }
const stop = () => postgres.remove()
await runRows((rig) => tenants(rig, numberArgument('requests', 1_000)), { instances: 2, settings, workers: 2, stop })
