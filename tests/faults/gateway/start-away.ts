// R32: three instances on three brokers. On one of them a key is revoked, another issued, a provider killed, one
// repointed, one given a credential, a model capped and one forced, a hard budget set, a tenant limited, a session
// ended and one opened, and the configuration frozen. Then all instances are killed (`kill -9`), the brokers too, and
// the instances start again: each is asked about all of it. `bun tests/faults/gateway/start-away.ts [--rounds 3]`.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { initTopics, kafkaSettings, NO_READ_MODELS } from '../../services/cluster.ts'
import { eventually } from '../../services/eventually.ts'
import { type GatewayProcess, INFERENCE_KEY, startGateway } from '../../services/gateway.ts'
import { conclude, numberArgument } from '../control/figures.ts'
import { UNDISTURBED } from '../rig.ts'

const ROUNDS = numberArgument('rounds', 3)
const INSTANCES = 3
const PASSWORD = 'correct horse battery'
const SECRET = 'sk-sealed'
const UNKNOWN_KEY = `gw_live_${'u'.repeat(43)}`

type Body = Readonly<Record<string, unknown>>
type Method = 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** An upstream that speaks the OpenAI wire and counts its calls. */
const upstream = () => {
  const usage = { prompt_tokens: 10, completion_tokens: 10, total_tokens: 20 }
  const message = { role: 'assistant', content: 'Hello' }
  const answer = { id: 'a', object: 'chat.completion', created: 1, model: 'm', usage }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  let calls = 0
  let authorized = 0
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch({ headers }) {
      calls++
      if (headers.get('authorization') === `Bearer ${SECRET}`) authorized++
      return Response.json({ ...answer, choices })
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}/v1`,
    calls: () => calls,
    authorized: () => authorized,
    stop: () => server.stop(true),
  }
}

const folder = mkdtempSync(join(tmpdir(), 'gatelog-start-away-'))
const kafka = await startKafka({ brokers: 3, dataDir: join(folder, 'kafka') })
const settings = { ...kafkaSettings(kafka.bootstrap), ...UNDISTURBED, ...NO_READ_MODELS }
await initTopics(settings, folder)
const gateways: GatewayProcess[] = []
for (let n = 0; n < INSTANCES; n++) gateways.push(startGateway({ settings }))
await Promise.all(gateways.map((gateway) => gateway.until('serving', 90_000)))
const [before, after] = [upstream(), upstream()]

const answered = async (gateway: GatewayProcess, method: Method, path: string, body: Body = {}) => {
  const answer = await gateway.request(`/admin/v1/${path}`, { method, body })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
  return { revision: answer.headers.get('X-Gateway-Revision'), body: JSON.parse(text) as Record<string, string> }
}
const chat = async (gateway: GatewayProcess, model: string, key = INFERENCE_KEY) => {
  const body = { model, messages: [{ role: 'user', content: 'Hello' }] }
  const answer = await gateway.request('/v1/chat/completions', { body, key })
  const text = await answer.text()
  const parsed = JSON.parse(text) as { gateway?: { routed_model?: string } }
  return { status: answer.status, model: parsed.gateway?.routed_model, retryAfter: answer.headers.get('Retry-After') }
}
const signedIn = async (gateway: GatewayProcess, path: 'setup' | 'login', more: Body = {}): Promise<string> => {
  const body = { username: 'ada', password: PASSWORD, ...more }
  const answer = await gateway.request(`/admin/v1/auth/${path}`, { body, key: null })
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
  return answer.headers.get('set-cookie')!.split(';')[0]!
}
const withCookie = (gateway: GatewayProcess, cookie: string, path: string, method: 'GET' | 'POST' = 'GET') =>
  gateway.request(path, { method, key: null, headers: { cookie, Origin: gateway.url } })

/** What is there before a round, and in the snapshots. */
const furnish = async (gateway: GatewayProcess, round: number) => {
  const made = async (path: string, body: Body) => (await answered(gateway, 'POST', path, body)).body
  const free = await made('tenants', { slug: `free-${round}`, name: 'free' })
  const tenant = await made('tenants', { slug: `limited-${round}`, name: 'limited' })
  const keyOf = (name: string, tenant_id = free.id!) => made('keys', { tenant_id, name, scopes: ['inference'] })
  const doomed = await made('providers', { name: `doomed-${round}`, kind: 'sandbox' })
  const pointed = await made('providers', {
    ...{ name: `pointed-${round}`, kind: 'openai_compatible', base_url: before.url },
  })
  const model = (name: string, provider_id: string, more: Body = {}) =>
    made('models', { name: `${name}-${round}`, provider_id, upstream_model: 'sandbox-echo', ...more })
  const sealed = await made('providers', {
    ...{ name: `sealed-${round}`, kind: 'openai_compatible', base_url: after.url },
  })
  await model('doomed', doomed.id!)
  await model('sealed', sealed.id!)
  await model('pointed', pointed.id!)
  const prices = { input_cost_per_million: 1_000, output_cost_per_million: 1_000 }
  for (const name of ['capped', 'forced', 'dear']) await model(name, pointed.id!, prices)
  return {
    doomed: doomed.id!,
    pointed: pointed.id!,
    sealed: sealed.id!,
    free: free.id!,
    tenant: tenant.id!,
    revoked: await keyOf(`revoked ${round}`),
    limited: await keyOf(`limited ${round}`, tenant.id!),
    spending: await keyOf(`spending ${round}`),
    ended: await signedIn(gateway, round === 0 ? 'setup' : 'login', round === 0 ? { confirm: PASSWORD } : {}),
  }
}

/** The changes of a round, by one instance. */
const change = async (gateway: GatewayProcess, round: number, there: Awaited<ReturnType<typeof furnish>>) => {
  const write = (method: Method, path: string, body: Body = {}) => answered(gateway, method, path, body)
  const override = (kind: string, target: string, value?: Body) =>
    write('POST', 'overrides', { kind, target, reason: 'start-away', ...(value === undefined ? {} : { value }) })
  await write('DELETE', `keys/${there.revoked.id}`)
  const issued = await write('POST', 'keys', {
    ...{ tenant_id: there.free, name: `issued ${round}`, scopes: ['inference'] },
  })
  await write('POST', `providers/${there.doomed}/kill`, { kill: true, reason: 'start-away' })
  await write('PATCH', `providers/${there.pointed}`, { base_url: after.url })
  await write('PUT', `providers/${there.sealed}/credential`, { secret: SECRET })
  await override('cap', `model:capped-${round}`, { max_cost_usd: 0.000_001 })
  await override('force', `model:forced-${round}`, { model: 'sandbox-echo' })
  await write('PUT', `tenants/${there.tenant}`, { name: 'limited', rate_limits: { rpm: 1 } })
  const budget = await write('PUT', 'budgets', {
    ...{
      tenant_id: there.free,
      scope: { type: 'key', id: there.spending.id },
      window: 'day',
      enforcement: 'hard',
      limit_usd: 0.1,
    },
  })
  await withCookie(gateway, there.ended, '/admin/v1/auth/logout', 'POST')
  const opened = await signedIn(gateway, 'login')
  const frozen = await override('freeze', '*')
  for (const each of gateways) {
    const headers = { 'X-Gateway-Min-Revision': frozen.revision! }
    await (await each.request('/v1/models', { headers })).arrayBuffer()
  }
  return { issued: issued.body.plaintext!, budget: budget.body.id!, opened, frozen: frozen.body.id! }
}

interface Tally {
  asked: number
  readonly wrong: string[]
}
const tally: Tally = { asked: 0, wrong: [] }
const expected = (what: string, isRight: boolean, seen: unknown): void => {
  tally.asked++
  if (!isRight) tally.wrong.push(`${what}: ${JSON.stringify(seen)}`)
}

/** Everything of a round, asked of an instance that started without the brokers. */
const ask = async (
  gateway: GatewayProcess,
  round: number,
  there: Awaited<ReturnType<typeof furnish>>,
  made: Awaited<ReturnType<typeof change>>,
) => {
  const revoked = await chat(gateway, 'sandbox-echo', there.revoked.plaintext)
  expected('a revoked key', revoked.status === 401, revoked)
  const issued = await chat(gateway, 'sandbox-echo', made.issued)
  expected('an issued key', issued.status === 200, issued)
  const unknown = await chat(gateway, 'sandbox-echo', UNKNOWN_KEY)
  expected('an unknown key', unknown.status === 503 && unknown.retryAfter !== null, unknown)
  const killed = await chat(gateway, `doomed-${round}`)
  expected('a killed provider', killed.status === 502, killed)
  const [callsBefore, callsAfter] = [before.calls(), after.calls()]
  const pointed = await chat(gateway, `pointed-${round}`)
  const went = { ...pointed, before: before.calls() - callsBefore, after: after.calls() - callsAfter }
  expected('a repointed provider', pointed.status === 200 && went.before === 0 && went.after === 1, went)
  const authorizedBefore = after.authorized()
  const sealed = await chat(gateway, `sealed-${round}`)
  expected('a credential', sealed.status === 200 && after.authorized() === authorizedBefore + 1, sealed)
  const capped = await chat(gateway, `capped-${round}`)
  expected('a capped model', capped.status === 402, capped)
  const forced = await chat(gateway, `forced-${round}`)
  expected('a forced model', forced.status === 200 && forced.model === 'sandbox-echo', forced)
  const limited = [
    (await chat(gateway, 'sandbox-echo', there.limited.plaintext)).status,
    (await chat(gateway, 'sandbox-echo', there.limited.plaintext)).status,
  ]
  expected("a tenant's limit", limited.includes(429), limited)
  const spending = await chat(gateway, `dear-${round}`, there.spending.plaintext)
  expected('a hard budget', spending.status === 429 || spending.status === 402, spending)
  const budget = (await (await gateway.request(`/admin/v1/budgets/${made.budget}`)).json()) as Body
  expected('what it has spent', budget.limit_usd === 0.1 && budget.spent_usd !== 0, budget.spent_usd)
  const ended = await withCookie(gateway, there.ended, '/admin/v1/tenants')
  expected('an ended session', ended.status === 503 || ended.status === 401, ended.status)
  const opened = await withCookie(gateway, made.opened, '/admin/v1/tenants')
  expected('an opened session', opened.status === 200, opened.status)
  const frozen = await gateway.request('/admin/v1/tenants', { body: { slug: 'not-now', name: 'x' } })
  expected('a frozen configuration', frozen.status === 403, frozen.status)
  const ready = (await (await gateway.request('/ready')).json()) as { checks: { control: string } }
  expected('/ready', ready.checks.control.includes('was last confirmed at'), ready.checks.control)
}

try {
  for (let round = 0; round < ROUNDS; round++) {
    const there = await furnish(gateways[round % INSTANCES]!, round)
    // Stopped in order, each leaves a snapshot: what follows is behind it.
    await Promise.all(gateways.map((gateway) => gateway.end()))
    for (const gateway of gateways) gateway.start()
    await Promise.all(gateways.map((gateway) => gateway.until('serving', 90_000)))
    await eventually('all are known', async () => {
      const answer = await gateways[0]!.request('/admin/v1/instances')
      const { instances } = (await answer.json()) as { instances: { live: boolean }[] }
      return instances.filter(({ live }) => live).length === INSTANCES
    })
    const changing = gateways[(round + 1) % INSTANCES]!
    const made = await change(changing, round, there)
    await Promise.all(gateways.map((gateway) => gateway.end('SIGKILL')))
    for (let n = 0; n < INSTANCES; n++) await kafka.broker(n).kill()
    for (const gateway of gateways) gateway.start()
    await Promise.all(gateways.map((gateway) => gateway.until('serving', 90_000)))
    for (const gateway of gateways) await ask(gateway, round, there, made)
    await Promise.all([0, 1, 2].map((n) => kafka.broker(n).restart()))
    await eventually(
      'all follow the log again',
      async () => {
        const answers = await Promise.all(gateways.map((gateway) => gateway.request('/ready')))
        const checks = (await Promise.all(answers.map((answer) => answer.json()))) as { checks: { control: string } }[]
        return checks.every(({ checks: { control } }) => control === 'ok')
      },
      { everyMs: 200, limitMs: 60_000 },
    )
    await answered(changing, 'POST', 'overrides', { kind: 'freeze', target: '*', enabled: false, reason: 'start-away' })
  }
} finally {
  for (const gateway of gateways) await gateway.remove()
  await kafka.stop()
  before.stop()
  after.stop()
  rmSync(folder, { recursive: true, force: true })
}
for (const each of tally.wrong) console.error(each)
conclude([
  {
    row: 'R32',
    what:
      `three instances killed (\`kill -9\`) after changes that all had applied, and started while three brokers are ` +
      `away, ${ROUNDS} times`,
    figure: `answers as before the crash ${tally.asked - tally.wrong.length} of ${tally.asked}`,
    n: tally.asked,
    good: tally.wrong.length === 0 && tally.asked > 0,
  },
])
