// What a client may put into the path, the query and the body of a route, and the forms in which it gets a list.
import { describe, expect, test } from 'bun:test'
import { Elysia } from 'elysia'
import { type AdminRoute, route } from '../../../src/http/admin/route.ts'
import { adminRoutes, adminTable } from '../../../src/http/admin/runner.ts'
import { t } from '../../../src/lib/schema/schema.ts'
import { ADMIN_KEY, BASE, type Gateway, startGateway } from './world/gateway.ts'

const ROWS = [
  { id: 'a', note: '=1+1', amount: -1.5, tags: ['x', 'y'], none: null },
  { id: 'b', note: 'say "hi",\nplease', amount: 2, tags: [], none: null, more: true },
  { id: '-c', note: "it's", amount: 0, tags: {}, none: null },
]

/** A list of a read model that keeps its queries. */
const readModel = (rows: readonly object[] = ROWS) => {
  const asked: unknown[] = []
  const list: AdminRoute = route({
    method: 'GET',
    path: '/things',
    scopes: [],
    summary: 'things',
    rows: 'things',
    query: t.Object({ search: t.Optional(t.String()), format: t.Optional(t.String()) }),
    handle({ query }) {
      asked.push(query)
      return { body: { things: rows, total: 9, limit: 3, offset: 0 } }
    },
  })
  return { list, asked }
}

const textOf = async ({ deps }: Gateway, path: string) => {
  const headers = { authorization: `Bearer ${ADMIN_KEY}` }
  const response = await new Elysia().use(adminRoutes(deps)).handle(new Request(`${BASE}${path}`, { headers }))
  return { status: response.status, type: response.headers.get('content-type'), text: await response.text() }
}

describe('text that cannot be stored', () => {
  test('in a query is 400 naming the parameter, before anything is read', async () => {
    const { list, asked } = readModel()
    const gateway = startGateway([list])
    const refused = await gateway.call('GET', '/things?search=a%00b')
    expect([refused.status, refused.body.error]).toMatchObject([400, { code: 'invalid_request', param: 'search' }])
    expect(asked).toEqual([])
  })

  test.each(['/tenants/%00', '/tenants/%ff', '/tenants/a%2', '/policies/%e0%a4', '/models/x%00y'])(
    'in a path is 404: %s',
    async (path) => {
      const { status, body } = await startGateway().call('GET', path)
      expect([status, body.error]).toMatchObject([404, { code: 'not_found' }])
      expect(JSON.stringify(body.error)).not.toContain('null\\"')
    },
  )
})

test('a name that can be given no more stays what it is in an older log', async () => {
  const gateway = startGateway()
  const rename = (name: string) => gateway.call('PUT', '/tenants/ten_old', { body: { name } })
  for (const name of ['  ', 'pay\u202etxt']) {
    const data = { id: 'ten_old', slug: 'old', name, plan: null, rate_limits: null, managed_by: 'api' }
    gateway.apply([
      { type: 'tenant.created', data },
      { type: 'tenant.replaced', data: { id: 'ten_old', name, plan: null } },
    ])
    expect((await gateway.call('GET', '/tenants/ten_old')).body.name as string).toBe(name)
    const { status, body } = await rename(name)
    expect([status, body.error]).toMatchObject([400, { param: 'name' }])
  }
  expect((await rename('Old')).body.name as string).toBe('Old')
})

// docs/behaviour.md: "Names and aliases"
describe('a name that shows nothing, or as another one, is 400 with its field wherever it stands', () => {
  const hidden = 'large\u200b'
  test.each<[string, string, string, object]>([
    ['models', 'PUT', '/policies', { name: 'p', models: ['small', hidden] }],
    ['providers.only', 'PUT', '/policies', { name: 'p', providers: { only: [hidden] } }],
    ['sensitivity.pii.providers', 'PUT', '/policies', { name: 'p', sensitivity: { pii: { providers: [hidden] } } }],
    ['fallback.models', 'PUT', '/policies', { name: 'p', fallback: { models: [hidden] } }],
    ['aliases', 'PUT', '/endpoints', { slug: 's', aliases: [hidden] }],
    ['overrides.forced_model', 'PUT', '/endpoints', { slug: 's', overrides: { forced_model: hidden } }],
    ['value.model', 'POST', '/overrides', { kind: 'force', value: { model: hidden } }],
    ['target', 'POST', '/overrides', { kind: 'block', target: `model:${hidden}` }],
    ['scope.id', 'PUT', '/budgets', { scope: { type: 'model', id: hidden }, limit_usd: 1 }],
    ['scopes', 'PUT', '/cache/policies', { name: 'r', ttl_seconds: 1, scopes: [`model:${hidden}`] }],
    ['plan', 'POST', '/tenants', { slug: 's', name: 'S', plan: hidden }],
  ])('%s', async (param, method, path, body) => {
    const gateway = startGateway()
    const decided = gateway.events.length
    const answer = await gateway.call(method, path, { body })
    expect([answer.status, answer.body.error]).toMatchObject([400, { code: 'invalid_request', param }])
    expect(gateway.events.length).toBe(decided)
  })

  test('an override about such a name can be taken back', async () => {
    const body = { kind: 'block', target: `model:${hidden}`, enabled: false }
    expect((await startGateway().call('POST', '/overrides', { body })).status).toBe(201)
  })

  test.each(['Team 👩‍💻', 'We ❤️ tests', '1️⃣ first', '🏳️‍🌈', '🇩🇪 Köln', 'العربية', 'naïve'])(
    'but not %s: within an emoji such characters have their use',
    async (name) => {
      const answer = await startGateway().call('POST', '/tenants', { body: { slug: 's', name } })
      expect([answer.status, answer.body.name as unknown]).toEqual([201, name])
    },
  )

  test('what is the client’s own, as the parameters of a tool, is not judged', async () => {
    const parameters = { type: 'object', properties: { name: { type: 'string', enum: [hidden] } } }
    expect((await startGateway().call('POST', '/tools', { body: { name: 't', parameters } })).status).toBe(201)
  })
})

/** What spreadsheets take for formulas, and what is text, a number or an empty cell to them. */
const FORMULAS = [
  ...[
    '=1+1',
    '+1',
    '-1',
    '@sum',
    '\t=1',
    '\r=1',
    '\n=1',
    '\t1',
    '\r\n1',
    ' =1',
    '  +1',
    '\u00a0-1',
    '\ufeff@a',
    '\u200b=1',
  ],
  ...['\uff1d1+1', '\uff0b1', '\uff0d1', '\uff20a', ' \uff1d1', '\u3000=1', '\0=1', ' \t =1', '\u2028=1'],
]
const TEXTS = ['a=1', ' a', 'a', "'=1", '1+1', '', ' ', '\u2212', 'e@f']

describe('format', () => {
  test('S45: whatever a spreadsheet may take for a formula has a quote before it, in cells and in the header', async () => {
    const rows = [...FORMULAS, ...TEXTS].map((note) => ({ '=note': note, last: 0 }))
    const { text } = await textOf(startGateway([readModel(rows).list]), '/things?format=csv')
    const cell = (note: string) => (/[",\r\n]/.test(note) ? `"${note}"` : note)
    const lines = [...FORMULAS.map((note) => `${cell(`'${note}`)},0`), ...TEXTS.map((note) => `${cell(note)},0`)]
    expect(text).toBe(["'=note,last", ...lines, ''].join('\r\n'))
  })

  test('csv: a header, quotes where needed, nested values as JSON, no text that a spreadsheet would run', async () => {
    const { status, type, text } = await textOf(startGateway([readModel().list]), '/things?format=csv')
    expect([status, type]).toEqual([200, 'text/csv; charset=utf-8'])
    expect(text).toBe(
      [
        'id,note,amount,tags,none,more',
        `a,'=1+1,-1.5,"[""x"",""y""]",,`,
        'b,"say ""hi"",\nplease",2,[],,true',
        "'-c,it's,0,{},,",
        '',
      ].join('\r\n'),
    )
  })

  test('ndjson: one object a line; json: the whole', async () => {
    const gateway = startGateway([readModel().list])
    const lines = await textOf(gateway, '/things?format=ndjson')
    expect(lines.type).toBe('application/x-ndjson')
    expect(lines.text).toBe(ROWS.map((row) => `${JSON.stringify(row)}\n`).join(''))
    const whole = await textOf(gateway, '/things?format=json')
    expect(whole.type).toBe('application/json')
    expect(JSON.parse(whole.text)).toEqual(JSON.parse((await textOf(gateway, '/things')).text))
    expect(JSON.parse(whole.text)).toMatchObject({ total: 9, things: [{ id: 'a' }, { id: 'b' }, { id: '-c' }] })
  })

  test('a list without a row is an empty text', async () => {
    const gateway = startGateway([readModel([]).list])
    for (const format of ['csv', 'ndjson']) expect((await textOf(gateway, `/things?format=${format}`)).text).toBe('')
  })

  test.each(['tenants', 'keys', 'providers', 'models', 'policies'])('/%s has them all, and no other', async (noun) => {
    const gateway = startGateway()
    await gateway.call('POST', '/policies', { body: { name: 'p' } })
    const query = noun === 'keys' ? 'tenant_id=ten_default&' : ''
    const csv = await textOf(gateway, `/${noun}?${query}format=csv`)
    const { body } = await gateway.call('GET', `/${noun}?${query}`)
    const [first] = body[noun] as object[]
    expect([csv.status, csv.text.split('\r\n')[0]]).toEqual([200, first ? Object.keys(first).join(',') : ''])
    const refused = await gateway.call('GET', `/${noun}?${query}format=xml`)
    expect([refused.status, refused.body.error]).toMatchObject([400, { param: 'format' }])
  })
})

describe('writes that take no body', () => {
  const writes = adminTable(startGateway().deps)
    .filter(({ method, bodySchema }) => method !== 'GET' && bodySchema === null)
    .map(({ method, path }) => [method, path.replace(':id', 'none')] as const)

  test.each(writes)('%s %s: a malformed body is 400, an unknown field is named', async (method, path) => {
    const gateway = startGateway()
    for (const raw of ['{"bad', '[]', '"x"']) expect((await gateway.call(method, path, { raw })).status).toBe(400)
    const { status, body } = await gateway.call(method, path, { body: { surprise: 1 } })
    expect([status, body.error]).toMatchObject([400, { code: 'invalid_request', param: 'surprise' }])
  })

  test('an empty body and {} are the same write', async () => {
    const gateway = startGateway()
    const { body: key } = await gateway.call('POST', '/keys', {
      body: { name: 'k', scopes: ['inference'], tenant_id: 'ten_default' },
    })
    const headers = { 'idempotency-key': 'once' }
    const first = await gateway.call('POST', `/keys/${key.id}/rotate`, { headers })
    const again = await gateway.call('POST', `/keys/${key.id}/rotate`, { headers, body: {} })
    expect([first.status, again.status, again.body.plaintext]).toEqual([201, 201, null])
    expect((await gateway.call('DELETE', `/keys/${key.id}`, { raw: '' })).status).toBe(200)
  })
})

test('a cap is whole nano-USD, as it is stored and as it is shown', async () => {
  const gateway = startGateway()
  const { body } = await gateway.call('POST', '/policies', { body: { name: 'p', max_cost_usd: 0.1234567894 } })
  expect(body.max_cost_usd).toBe(0.123456789)
  const decisions = gateway.events.length
  const same = await gateway.call('PUT', '/policies', { body: { name: 'p', max_cost_usd: 0.12345678901 } })
  expect([same.body.max_cost_usd, gateway.events.length]).toEqual([0.123456789, decisions])
})
