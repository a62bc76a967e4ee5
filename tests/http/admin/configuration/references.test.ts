// References to unknown models and providers: accepted, since they may come later, and reported.
import { describe, expect, test } from 'bun:test'
import { type Gateway, startGateway } from '../world/gateway.ts'

const withModel = async (): Promise<Gateway> => {
  const gateway = startGateway()
  const { body } = await gateway.call('POST', '/providers', { body: { name: 'vendor', kind: 'openai' } })
  await gateway.call('POST', '/models', { body: { name: 'gpt-large', provider_id: body.id, aliases: ['clever'] } })
  return gateway
}
const messageOf = ({ error }: Record<string, unknown>) => (error as { message: string }).message

// docs/behaviour.md: "Names and aliases"
describe('a policy', () => {
  test('reports which of its names are unknown, and similar ones', async () => {
    const gateway = await withModel()
    const policy = {
      name: 'p',
      models: ['GPT-Large', 'clever', 'gpt-lagre'],
      providers: { only: ['Vendor', 'vendro'], order: ['vendor'], ignore: ['somebody'] },
      fallback: { models: ['cleverer'], context_window_models: ['far-off'] },
      sensitivity: { pii: { providers: ['vendor'] }, phi: { providers: ['nobody'] } },
    }
    const made = await gateway.call('POST', '/policies', { body: policy })
    expect([made.status, made.body.warnings]).toEqual([
      201,
      [
        'models: no model has the name, alias or id "gpt-lagre"; did you mean "gpt-large"?',
        'providers.only: no provider has the name or id "vendro"; did you mean "vendor"?',
        'providers.ignore: no provider has the name or id "somebody"',
        'fallback.models: no model has the name, alias or id "cleverer"; did you mean "clever"?',
        'fallback.context_window_models: no model has the name, alias or id "far-off"',
        'sensitivity.phi.providers: no provider has the name or id "nobody"',
      ],
    ])
    expect(made.body.models).toEqual(policy.models)
  })

  test('an answer goes back as PUT; a warning stays until a row has the name', async () => {
    const gateway = await withModel()
    const made = await gateway.call('POST', '/policies', { body: { name: 'p', providers: { only: ['soon'] } } })
    const again = await gateway.call('PUT', '/policies', { body: made.body })
    expect([again.status, again.body]).toEqual([200, made.body])
    const read = await gateway.call('GET', `/policies/${made.body.id}`)
    expect(read.body).not.toHaveProperty('warnings')
    await gateway.call('POST', '/providers', { body: { name: 'Soon', kind: 'openai' } })
    expect((await gateway.call('PUT', '/policies', { body: made.body })).body).not.toHaveProperty('warnings')
  })

  test('with nothing wrong has no warnings; with very much it has a bound', async () => {
    const gateway = await withModel()
    const fine = { name: 'p', models: ['clever'], providers: { ignore: ['VENDOR'] } }
    expect((await gateway.call('POST', '/policies', { body: fine })).body).not.toHaveProperty('warnings')
    const models = Array.from({ length: 60 }, (_, i) => `unknown-model-${i}`)
    const { body } = await gateway.call('PUT', '/policies', { body: { name: 'p', models } })
    expect([(body.warnings as string[]).length, (body.warnings as string[]).at(-1)]).toEqual([17, 'and 44 more'])
  })
})

describe('an endpoint scope', () => {
  const put = (gateway: Gateway, body: object) => gateway.call('PUT', '/endpoints', { body })

  test('may prefer what does not exist yet, and says so in the words that were sent', async () => {
    const gateway = await withModel()
    const preferred = { preferred_models: ['clevr'], preferred_providers: ['vendor', 'else'] }
    const nested = await put(gateway, { slug: 'a', overrides: preferred })
    expect([nested.status, nested.body.warnings]).toEqual([
      200,
      [
        'overrides.preferred_models: no model has the name, alias or id "clevr"; did you mean "clever"?',
        'overrides.preferred_providers: no provider has the name or id "else"',
      ],
    ])
    const flat = await put(gateway, { slug: 'b', ...preferred })
    expect((flat.body.warnings as string[]).map((text) => text.split(':')[0])).toEqual([
      'preferred_models',
      'preferred_providers',
    ])
    expect((await put(gateway, nested.body)).status).toBe(200)
  })

  test('may force only what exists, and the refusal says what was probably meant', async () => {
    const gateway = await withModel()
    const refused = await put(gateway, { slug: 'a', forced_model: 'gpt-larg' })
    expect([refused.status, messageOf(refused.body)]).toEqual([
      400,
      'no model has the name, alias or id "gpt-larg"; did you mean "gpt-large"?',
    ])
    const forced = { kind: 'force', value: { model: 'gpt-larg' } }
    expect(messageOf((await gateway.call('POST', '/overrides', { body: forced })).body)).toContain('"gpt-large"?')
  })

  test('whose forced model was deleted since is reported when it is written again', async () => {
    const gateway = await withModel()
    await put(gateway, { slug: 'a', forced_model: 'gpt-large' })
    const { body } = await gateway.call('GET', '/models')
    await gateway.call('DELETE', `/models/${(body.models as [{ id: string }])[0].id}`)
    const again = await put(gateway, { slug: 'a', forced_model: 'gpt-large', name: 'x' })
    expect([again.status, again.body.warnings]).toEqual([
      200,
      ['forced_model: no model has the name, alias or id "gpt-large"'],
    ])
  })
})

describe('`provider:<provider>/<model>` is one row of the registry', () => {
  const idOf = async (gateway: Gateway): Promise<string> =>
    ((await gateway.call('GET', '/models')).body.models as [{ id: string }])[0].id

  test('where it is there: kept as its id, wherever models are named', async () => {
    const gateway = await withModel()
    const id = await idOf(gateway)
    const text = 'provider:Vendor/GPT-large'
    const policy = { name: 'p', models: ['clever', text], fallback: { models: [text], context_window_models: [text] } }
    const made = await gateway.call('PUT', '/policies', { body: policy })
    expect(made.body).toMatchObject({
      models: ['clever', id],
      fallback: { models: [id], context_window_models: [id] },
    })
    expect(made.body).not.toHaveProperty('warnings')
    const again = await gateway.call('PUT', '/policies', { body: policy })
    expect(again.body).toEqual(made.body)
    const scope = await gateway.call('PUT', '/endpoints', {
      body: { slug: 'a', forced_model: text, preferred_models: [text] },
    })
    expect(scope.body.overrides).toMatchObject({ forced_model: id, preferred_models: [id] })
    const force = await gateway.call('POST', '/overrides', { body: { kind: 'force', value: { model: text } } })
    expect([force.status, force.body.value]).toEqual([201, { model: id }])
  })

  test.each([
    ['PUT', '/policies', { name: 'p', models: ['clever', 'provider:vendor/other'] }, 'models'],
    ['POST', '/policies', { name: 'p', fallback: { models: ['provider:vendro/gpt-large'] } }, 'fallback.models'],
    [
      'PUT',
      '/policies',
      { name: 'p', fallback: { context_window_models: ['provider:vendor/x/y'] } },
      'fallback.context_window_models',
    ],
    ['PUT', '/endpoints', { slug: 'a', preferred_models: ['provider:vendor/other'] }, 'preferred_models'],
    [
      'PUT',
      '/endpoints',
      { slug: 'a', overrides: { preferred_models: ['provider:vendor/other'] } },
      'overrides.preferred_models',
    ],
    ['PUT', '/endpoints', { slug: 'a', forced_model: 'provider:vendor/other' }, 'forced_model'],
    ['POST', '/overrides', { kind: 'force', value: { model: 'provider:vendor/other' } }, 'value.model'],
  ])('where it is not: 400 for %s %s %j, and nothing changes', async (method, path, body, param) => {
    const gateway = await withModel()
    const events = gateway.events.length
    const { status, body: answer } = await gateway.call(method, path, { body })
    expect([status, answer.error]).toMatchObject([400, { param }])
    expect(gateway.events).toHaveLength(events)
  })

  test('says what is lacking: the provider, or the model', async () => {
    const gateway = await withModel()
    const refusal = async (text: string) =>
      messageOf((await gateway.call('POST', '/policies', { body: { name: 'p', models: [text] } })).body)
    expect(await refusal('provider:vendro/m')).toBe(
      '"provider:vendro/m" names one model of one provider, and there is no provider "vendro"',
    )
    expect(await refusal('provider:vendor/m')).toBe(
      '"provider:vendor/m" names one model of one provider, and the provider "vendor" has no model "m"',
    )
  })

  test('an unknown name in an earlier policy stays, also when the policy is written again', async () => {
    const gateway = await withModel()
    const { body } = await gateway.call('POST', '/policies', { body: { name: 'p' } })
    const text = 'provider:vendor/later'
    const fallback = { models: [text] }
    gateway.apply([{ type: 'policy.changed', data: { id: body.id, models: [text], fallback } }])
    const { body: providers } = await gateway.call('GET', '/providers')
    const [{ id: provider_id }] = providers.providers as [{ id: string }]
    await gateway.call('POST', '/models', { body: { name: 'later', provider_id } })
    const again = await gateway.call('PUT', '/policies', {
      body: { name: 'p', models: [text], fallback, regions: ['eu'] },
    })
    expect([again.status, again.body]).toMatchObject([200, { models: [text], fallback, regions: ['eu'] }])
  })

  test('a model that is called so is meant by its name', async () => {
    const gateway = await withModel()
    const { body: providers } = await gateway.call('GET', '/providers')
    const [{ id: provider_id }] = providers.providers as [{ id: string }]
    const name = 'provider:vendor/gpt-large'
    await gateway.call('POST', '/models', { body: { name, provider_id } })
    expect((await gateway.call('POST', '/policies', { body: { name: 'p', models: [name] } })).body.models).toEqual([
      name,
    ])
  })
})
