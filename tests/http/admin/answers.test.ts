// Answers of the main resources match the schemas of their routes, without undocumented members.
import { expect, test } from 'bun:test'
import { GENESIS, writeDecision } from '../../../src/domain/kernel/decision.ts'
import { closed } from '../../../src/domain/kernel/fields.ts'
import { adminTable } from '../../../src/http/admin/runner.ts'
import { EXAMPLES } from '../../../src/http/docs/examples.ts'
import { type TSchema, Value } from '../../../src/lib/schema/schema.ts'
import type { Capability } from '../../../src/providers/port.ts'
import { CONTROL } from '../../../src/state/fold.ts'
import { writeTurn } from '../../../src/state/write-turns.ts'
import type { ProviderWork } from '../../../src/upkeep/models/provider-work.ts'
import { GatewayError } from '../../../src/wire/errors.ts'
import { tenantCreated } from '../../domain/world.ts'
import { entry } from '../../inference/gateway.ts'
import { macKey } from '../../state/support.ts'
import { type Answer, startGateway } from './world/gateway.ts'
import { type RealGateway, startRealGateway } from './world/real-history.ts'

const LOST = {
  parent: GENESIS,
  actor: { type: 'key', id: 'key_old' },
  cause: null,
  v: 1,
  events: [tenantCreated('ten_lost')],
} as const

const passed = { status: 'passed' as const, latency_ms: 5, detail: 'it answers' }
const sample = {
  ...{
    ...passed,
    check: 'sample',
    model: 'gpt-4o-mini',
    request_id: 'req_1',
    upstream_status: 200,
    error_code: 'none',
  },
  ...{ prompt_tokens: 9, completion_tokens: 1, cost_nano_usd: 12_000, cost_basis: 'measured' as const },
}
const listing = { ...passed, check: 'models', models: 3 }
const VERDICTS = { chat: 'proven', tools: 'disproved', seed: 'indeterminate', vision: 'skipped' } as const

/** What a provider answers when one is called. */
const work: Partial<ProviderWork> = {
  entriesOf: () => [entry({ modelId: ids.get('model')! })],
  test: async () => [listing, sample].map((result) => ({ shown: result, recorded: result })),
  detect: async (entries) =>
    entries.map((one) => ({
      ...{ entry: one, attempted: true, latencyMs: 9, costNanoUsd: 2_000 },
      verdicts: Object.entries(VERDICTS).map(([name, verdict]) => ({
        capability: name as Capability,
        verdict,
        detail: 'why',
        latencyMs: 3,
      })),
    })),
}
const gateway = startGateway([], {}, work)
const table = adminTable(gateway.deps)
/** Path parameters by resource, as they are made. */
const ids = new Map<string, string>()
const asked = new Set<string>()

const flawsOf = (schema: TSchema, value: unknown): string[] =>
  [...Value.Errors(closed(schema), value)].map(
    ({ path, message, value: found }) => `${path} ${message}: ${JSON.stringify(found)}`,
  )

/** Calls a route, with its example unless another body is given, and compares the answer with its schema. */
const ask = async (
  name: string,
  resource: string,
  body: unknown = EXAMPLES[name],
  { call }: Pick<RealGateway, 'call'> = gateway,
): Promise<Answer> => {
  const [method, path] = name.split(' ') as [string, string]
  const route = table.find((each) => each.method === method && each.path === path)!
  const answer = await call(method, path.replace(':id', ids.get(resource) ?? 'none'), { body })
  expect([name, answer.status, answer.body.error]).toEqual([name, route.successStatus, undefined])
  const listed = route.rows === null ? [answer.body] : (answer.body[route.rows] as unknown[])
  expect([name, listed.length > 0]).toEqual([name, true])
  const rows = route.whole ? [answer.body] : listed
  expect(route.answer).not.toBeNull()
  for (const row of rows) expect([name, flawsOf(route.answer!, row)]).toEqual([name, []])
  asked.add(name)
  if (typeof answer.body.id === 'string') ids.set(resource, answer.body.id)
  return answer
}

/** Of a chain with records of every verdict that the log keeps apart, read by the history thread. */
const askLog = async () => {
  const real = await startRealGateway()
  try {
    const made = await real.call('POST', '/tenants', { body: { slug: 'shown', name: 'Shown' } })
    const lost = writeDecision({ ...LOST, at: new Date().toISOString() }, macKey)
    const forged = Buffer.from(lost.bytes)
    forged[forged.length - 3] = forged[forged.length - 3] === 0x30 ? 0x31 : 0x30
    const others = [lost.bytes, forged, Buffer.from('no decision'), writeTurn({ instance: 'i', nonce: 'n' }, macKey)]
    await real.log.append(
      CONTROL,
      0,
      others.map((value) => ({ key: null, value })),
    )
    const { body } = await ask('GET /log', 'record', undefined, real)
    const records = body.decisions as { verdict: string; offset: number }[]
    expect(new Set(records.map(({ verdict }) => verdict))).toEqual(
      new Set(['counted', 'lost', 'forged', 'unreadable', 'turn']),
    )
    for (const { offset } of records) {
      ids.set('record', `${offset}`)
      await ask('GET /log/:id', 'record', undefined, real)
    }
    ids.set('record', made.headers.get('x-gateway-revision')!)
    await ask('POST /log/:id/revert', 'record', undefined, real)
    await ask('GET /log', 'record', undefined, real)
  } finally {
    await real.close()
  }
}

test('every route that says what it answers answers that', async () => {
  await ask('POST /tenants', 'tenant')
  for (const name of ['GET /tenants', 'GET /tenants/:id', 'PUT /tenants/:id']) await ask(name, 'tenant')
  const tenant_id = ids.get('tenant')!
  await ask('POST /keys', 'key', { ...EXAMPLES['POST /keys'], tenant_id })
  for (const name of ['GET /keys/:id', 'PATCH /keys/:id', 'POST /keys/:id/rotate']) await ask(name, 'key')
  const listed = await gateway.call('GET', `/keys?tenant_id=${tenant_id}`)
  expect(flawsOf(table.find(({ path }) => path === '/keys')!.answer!, (listed.body.keys as unknown[])[0])).toEqual([])
  asked.add('GET /keys')

  await ask('POST /providers', 'provider')
  for (const name of ['GET /providers', 'PUT /providers/:id', 'PATCH /providers/:id']) await ask(name, 'provider')
  await ask('PUT /providers/:id/credential', 'provider', { secret: 'the secret of the provider' })
  for (const name of ['GET /providers/:id', 'GET /providers/:id/credential']) await ask(name, 'provider')
  await ask('POST /models', 'model', { ...EXAMPLES['POST /models'], provider_id: ids.get('provider') })
  for (const name of ['GET /models', 'GET /models/:id', 'PUT /models/:id', 'PATCH /models/:id'])
    await ask(name, 'model')

  const asking = 'POST /providers/:id/detect-capabilities'
  const provider = ids.get('provider')!
  await ask('POST /providers/:id/test', 'provider')
  ids.set('provider', provider)
  await ask('GET /providers/:id/tests', 'provider')
  await ask(asking, 'provider', { models: [ids.get('model')] })
  ids.set('provider', provider)
  gateway.listed = [{ name: 'listed', contextWindow: 8_192, maxOutputTokens: null, capabilities: ['chat'] }]
  await ask('POST /providers/:id/sync-models', 'provider')
  const kept = await gateway.call('GET', `/providers/${provider}/tests?kind=all`)
  const { answer: testAnswer } = table.find(({ path }) => path === '/providers/:id/tests')!
  const tests = kept.body.tests as { kind: string }[]
  expect(tests.map(({ kind }) => kind)).toEqual(['sync', 'detection', 'test'])
  for (const one of tests) expect([one.kind, flawsOf(testAnswer!, one)]).toEqual([one.kind, []])
  // Of a provider that lists its models, and of one that cannot now.
  for (const listed of [[], new GatewayError('upstream_error', 'it does not answer')]) {
    gateway.listed = listed
    await ask('PUT /providers/:id/credential', 'provider', { secret: 'the secret of the provider', sync_models: true })
  }
  await ask('DELETE /providers/:id/credential', 'provider')
  await askLog()

  for (const name of ['POST /prices/corrections', 'GET /prices/corrections']) await ask(name, 'price_correction')

  ids.set('instance', 'ins_dead')
  for (const name of ['POST /instances/:id/retire', 'GET /instances']) await ask(name, 'instance')

  await ask('POST /policies/reload', 'policy')
  for (const name of ['POST /policies', 'PUT /policies', 'GET /policies', 'GET /policies/:id'])
    await ask(name, 'policy')
  for (const name of ['PUT /endpoints', 'GET /endpoints', 'GET /endpoints/:id']) await ask(name, 'endpoint')
  for (const name of ['POST /overrides', 'GET /overrides', 'GET /guardrails']) await ask(name, 'override')
  await ask('PUT /budgets', 'budget', { ...EXAMPLES['PUT /budgets'], tenant_id })
  for (const name of ['GET /budgets', 'GET /budgets/:id', 'POST /budgets/:id/verify']) await ask(name, 'budget')
  for (const name of ['PUT /cache/policies', 'GET /cache/policies', 'GET /cache/policies/:id']) await ask(name, 'rule')
  for (const name of ['POST /tools', 'GET /tools', 'GET /tools/:id', 'PUT /tools/:id', 'POST /tools/:id/enabled'])
    await ask(name, 'tool')
  for (const name of ['PUT /tool-policies', 'GET /tool-policies', 'GET /tool-policies/:id'])
    await ask(name, 'tool_policy')

  await ask('POST /providers/:id/kill', 'provider')
  for (const name of ['POST /operators', 'GET /operators', 'GET /operators/:id']) await ask(name, 'operator')
  await ask('PUT /operators/:id/password', 'operator', { password: 'another one of many words' })
  await ask('DELETE /operators/:id', 'operator')
  await ask('DELETE /keys/:id', 'key')
  await ask('DELETE /providers/:id', 'provider')
  ids.set(
    'tenant',
    (await gateway.call('POST', '/tenants', { body: { slug: 'brief', name: 'Brief' } })).body.id as string,
  )
  for (const name of ['DELETE /tenants/:id/content', 'DELETE /tenants/:id']) await ask(name, 'tenant')

  const told = table.filter(({ answer }) => answer !== null).map(({ method, path }) => `${method} ${path}`)
  expect([...asked].toSorted()).toEqual(told.toSorted())
})
