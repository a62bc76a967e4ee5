// The configuration behind the outcomes of tests/bench/reads.ts, made through the admin API, and some requests that
// pass through the gateway.
import type { GatewayProcess } from '../../services/gateway.ts'

export interface Named {
  readonly id: string
  readonly name: string
}

export interface BenchModel extends Named {
  readonly provider: Named
}

export interface BenchTenant {
  readonly id: string
  /** Ids. */
  readonly keys: readonly string[]
  readonly policy: string
}

export interface World {
  readonly tenants: readonly BenchTenant[]
  readonly models: readonly BenchModel[]
  /** Slugs. */
  readonly endpoints: readonly string[]
  /** Of a key that reads the first tenant and nothing else. */
  readonly tenantSecret: string
  /** Ids of requests that went through the gateway. */
  readonly served: readonly string[]
}

const TENANTS = 20
const KEYS_EACH = 3
const PROVIDERS = 5
const MODELS_EACH = 4
const ENDPOINTS = 8
const OVERRIDES = 150
const SERVED = 200
/** What fills the audit log. */
const RENAMED = 3_000

type Made = { readonly id: string; readonly plaintext: string }

const send = async (gateway: GatewayProcess, method: string, path: string, body: object): Promise<Made> => {
  const answer = await gateway.request(`/admin/v1${path}`, { method, body })
  const said = (await answer.json()) as Made
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(said)}`)
  return said
}

const tenantOf = async (gateway: GatewayProcess, number: number): Promise<BenchTenant> => {
  const { id } = await send(gateway, 'POST', '/tenants', { slug: `team-${number}`, name: `Team ${number}` })
  const keys: string[] = []
  for (let key = 0; key < KEYS_EACH; key++)
    keys.push((await send(gateway, 'POST', '/keys', { tenant_id: id, name: `key ${key}`, scopes: ['inference'] })).id)
  const { id: policy } = await send(gateway, 'POST', '/policies', { tenant_id: id, name: `policy ${number}` })
  for (const window of ['day', 'month'])
    await send(gateway, 'PUT', '/budgets', { tenant_id: id, window, limit_usd: 10_000, enforcement: 'soft' })
  return { id, keys, policy }
}

const modelsOf = async (gateway: GatewayProcess): Promise<BenchModel[]> => {
  const models: BenchModel[] = []
  for (let number = 0; number < PROVIDERS; number++) {
    const name = `vendor-${number}`
    const { id } = await send(gateway, 'POST', '/providers', { name, kind: 'sandbox' })
    for (let at = 0; at < MODELS_EACH; at++) {
      const model = `model-${number}-${at}`
      const made = await send(gateway, 'POST', '/models', { name: model, provider_id: id })
      models.push({ id: made.id, name: model, provider: { id, name } })
    }
  }
  return models
}

const serve = async (gateway: GatewayProcess): Promise<string> => {
  const body = { model: 'sandbox-echo', messages: [{ role: 'user', content: 'one two three' }] }
  const answer = await gateway.request('/v1/chat/completions', { body })
  const said = (await answer.json()) as { gateway: { request_id: string } }
  if (!answer.ok) throw new Error(`a request was not served: ${answer.status}`)
  return said.gateway.request_id
}

/** Of a gateway that is ready and new. */
export const makeWorld = async (gateway: GatewayProcess): Promise<World> => {
  const tenants: BenchTenant[] = []
  for (let number = 0; number < TENANTS; number++) tenants.push(await tenantOf(gateway, number))
  const models = await modelsOf(gateway)
  const endpoints = Array.from({ length: ENDPOINTS }, (_, number) => `scope-${number}`)
  for (const slug of endpoints) await send(gateway, 'PUT', '/endpoints', { slug, name: slug })
  for (let number = 0; number < OVERRIDES; number++)
    await send(gateway, 'POST', '/overrides', { kind: 'block', target: `model:gone-${number}`, reason: 'bench' })
  for (let number = 0; number < RENAMED; number++)
    await send(gateway, 'PUT', `/tenants/${tenants[number % TENANTS]!.id}`, { name: `Team, name ${number}` })
  const reader = { tenant_id: tenants[0]!.id, name: 'reader', scopes: ['usage:read'] }
  const { plaintext } = await send(gateway, 'POST', '/keys', reader)
  const served: string[] = []
  for (let number = 0; number < SERVED; number++) served.push(await serve(gateway))
  return { tenants, models, endpoints, tenantSecret: plaintext, served }
}
