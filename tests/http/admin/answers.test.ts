// Answers of the main resources are as their routes say, with no member that the document does not tell of.
import { expect, test } from 'bun:test'
import { closed } from '../../../src/domain/fields.ts'
import { adminTable } from '../../../src/http/admin/admin.ts'
import { EXAMPLES } from '../../../src/http/docs/examples.ts'
import { type TSchema, Value } from '../../../src/lib/schema.ts'
import { type Answer, startGateway } from './gateway.ts'

const gateway = startGateway()
const table = adminTable(gateway.deps)
/** Path parameters by resource, as they are made. */
const ids = new Map<string, string>()
const asked = new Set<string>()

const flawsOf = (schema: TSchema, value: unknown): string[] =>
  [...Value.Errors(closed(schema), value)].map(
    ({ path, message, value: found }) => `${path} ${message}: ${JSON.stringify(found)}`,
  )

/** Asks a route, with its example unless another body is given, and holds the answer against its schema. */
const ask = async (name: string, resource: string, body: unknown = EXAMPLES[name]): Promise<Answer> => {
  const [method, path] = name.split(' ') as [string, string]
  const route = table.find((each) => each.method === method && each.path === path)!
  const answer = await gateway.call(method, path.replace(':id', ids.get(resource) ?? 'none'), { body })
  expect([name, answer.status, answer.body.error]).toEqual([name, route.successStatus, undefined])
  const rows = route.rows === null ? [answer.body] : (answer.body[route.rows] as unknown[])
  expect([name, rows.length > 0]).toEqual([name, true])
  expect(route.answer).not.toBeNull()
  for (const row of rows) expect([name, flawsOf(route.answer!, row)]).toEqual([name, []])
  asked.add(name)
  if (typeof answer.body.id === 'string') ids.set(resource, answer.body.id)
  return answer
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

  for (const name of ['POST /prices/corrections', 'GET /prices/corrections']) await ask(name, 'price_correction')

  ids.set('instance', 'ins_dead')
  for (const name of ['POST /instances/:id/retire', 'GET /instances']) await ask(name, 'instance')

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
  await ask('DELETE /providers/:id', 'provider')
  ids.set(
    'tenant',
    (await gateway.call('POST', '/tenants', { body: { slug: 'brief', name: 'Brief' } })).body.id as string,
  )
  for (const name of ['DELETE /tenants/:id/content', 'DELETE /tenants/:id']) await ask(name, 'tenant')

  const told = table.filter(({ answer }) => answer !== null).map(({ method, path }) => `${method} ${path}`)
  expect([...asked].toSorted()).toEqual(told.toSorted())
})
