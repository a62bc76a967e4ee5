// `/openapi.json` of the whole surface: every route that exists and every planned one is in it, and it holds together.
import { describe, expect, test } from 'bun:test'
import { openApiDocument } from '../../src/http/docs/document.ts'
import { EXAMPLES } from '../../src/http/docs/examples.ts'
import { docsPage, PAGE_HEADERS } from '../../src/http/docs/page.ts'
import { FeedbackBody } from '../../src/inference/surface/feedback.ts'
import { Value } from '../../src/lib/schema/schema.ts'
import { ChatRequest } from '../../src/wire/chat-request.ts'
import { auth, document, mounted, names, operationOf, operations, options, table, template } from './documented.ts'

interface Described {
  readonly description?: string
  readonly properties?: Readonly<Record<string, Described>>
  readonly anyOf?: readonly Described[]
  readonly items?: Described
}

/** Inference, operations and the doors of the console. */
const PUBLIC = [
  ...['POST /v1/chat/completions', 'GET /v1/models', 'GET /v1/models/{model}', 'POST /v1/completions'],
  ...['POST /v1/embeddings', 'POST /v1/responses', 'POST /v1/feedback', 'GET /', 'GET /health', 'GET /healthz'],
  ...['GET /ready', 'GET /readiness', 'GET /version', 'GET /metrics', 'GET /admin/v1/auth/state'],
  ...['POST /admin/v1/auth/setup', 'POST /admin/v1/auth/login', 'POST /admin/v1/auth/logout', 'GET /admin/v1/auth/me'],
]
/** Below `/admin/v1`. */
const ADMIN = `
GET /overview, GET /system, GET /providers, GET /providers/health, POST /providers/{id}/probe, GET /models, GET /usage/summary, GET /usage/series,
GET /requests, GET /requests/{id}, GET /requests/{id}/explain, GET /errors, GET /scores, GET /audit, GET /guardrails,
GET /policies, GET /policies/{id}, POST /policies, PUT /policies, DELETE /policies/{id}, POST /policies/reload,
GET /tenants, POST /tenants, GET /tenants/{id}, PUT /tenants/{id}, DELETE /tenants/{id},
GET /keys, POST /keys, PATCH /keys/{id}, POST /keys/{id}/rotate, DELETE /keys/{id},
POST /providers, GET /providers/{id}, PUT /providers/{id}, PATCH /providers/{id}, DELETE /providers/{id},
PUT /providers/{id}/credential, GET /providers/{id}/credential, DELETE /providers/{id}/credential, POST /providers/{id}/test,
GET /providers/{id}/tests, POST /providers/{id}/sync-models, POST /providers/{id}/detect-capabilities, POST /providers/{id}/kill,
GET /models/{id}, POST /models, PUT /models/{id}, PATCH /models/{id}, DELETE /models/{id},
GET /budgets, PUT /budgets, GET /overrides, POST /overrides, GET /endpoints, PUT /endpoints, DELETE /endpoints/{id},
GET /cache/stats, GET /cache/inspect, POST /cache/invalidate, GET /cache/policies, PUT /cache/policies, DELETE /cache/policies/{id}, GET /cache/invalidations,
POST /replay, GET /replay, GET /replay/{id}, GET /evaluations, GET /evaluations/{id},
POST /tunnels/create, POST /tunnels/stop, POST /tunnels/restart, GET /tunnels/status, GET /tunnels/current-url, GET /tunnels/history,
GET /tools, POST /tools, PUT /tools/{id}, POST /tools/{id}/enabled, DELETE /tools/{id}, GET /tool-policies, PUT /tool-policies, DELETE /tool-policies/{id},
GET /tool-invocations, GET /tool-invocations/{id}, GET /agent-runs, GET /agent-runs/{id}`
  .split(',')
  .map((name) => name.trim())
/**
 * What is planned: the cache's contents, replay, evaluations, tunnels, tool invocations and agent runs. The document
 * shows only a 501 for them.
 */
const LATER = `
GET /cache/stats, GET /cache/inspect, POST /cache/invalidate, GET /cache/invalidations, POST /replay, GET /replay, GET /replay/{id},
GET /evaluations, GET /evaluations/{id}, POST /tunnels/create, POST /tunnels/stop, POST /tunnels/restart, GET /tunnels/status,
GET /tunnels/current-url, GET /tunnels/history, GET /tool-invocations, GET /tool-invocations/{id}, GET /agent-runs, GET /agent-runs/{id}`
  .split(',')
  .map((name) => name.trim().replace(' ', ' /admin/v1'))
/** Routes of `/v1` that are refused with 501 by name, so that a client gets a clear answer. */
const REFUSED = ['POST /v1/completions', 'POST /v1/embeddings', 'POST /v1/responses']
const isAnswered = (name: string): boolean => Object.keys(operationOf(name).responses).some((status) => status < '3')

describe('what is in the document', () => {
  test('every route that is mounted', () => {
    const routes = mounted.filter(({ method }) => method !== 'ALL')
    expect(routes.length).toBeGreaterThan(table.length + auth.length)
    // The name of a model may hold slashes.
    const plain = (path: string) => path.replace(/(?<=.)\/$/, '').replace('/models/*', '/models/{model}')
    const there = routes.map(({ method, path }) => `${method} ${template(plain(path))}`)
    expect(there.filter((name) => !names.includes(name))).toEqual([])
  })

  test('every route of the product, with an answer; of what is planned that it is', () => {
    const wanted = [...PUBLIC, ...ADMIN.map((name) => name.replace(' ', ' /admin/v1'))]
    expect(wanted.filter((name) => !names.includes(name))).toEqual([])
    expect(wanted.filter((name) => !isAnswered(name)).toSorted()).toEqual([...LATER, ...REFUSED].toSorted())
    for (const name of LATER) expect(operationOf(name).responses).toHaveProperty('501')
  })

  test('nothing of the administration where it is switched off', () => {
    const { paths } = openApiDocument({ ...options, admin: null })
    expect(Object.keys(paths).filter((path) => path.startsWith('/admin'))).toEqual([])
  })
})

describe('the document holds together', () => {
  test('ids of operations are unique', () => {
    const ids = operations.map(({ operation }) => operation.operationId)
    expect(ids.filter((id, i) => ids.indexOf(id) !== i)).toEqual([])
    expect(ids.every((id) => /^\w+$/.test(id))).toBe(true)
  })

  test('every reference leads somewhere, and every component is referred to', () => {
    const referred = [...JSON.stringify(document).matchAll(/"#\/components\/(\w+)\/(\w+)"/g)].map(([, kind, name]) => [
      kind!,
      name!,
    ])
    const there = Object.entries(document.components).filter(([kind]) => kind !== 'securitySchemes')
    const components = there.flatMap(([kind, members]) => Object.keys(members).map((name) => `${kind}/${name}`))
    expect([...new Set(referred.map((parts) => parts.join('/')))].toSorted()).toEqual(components.toSorted())
    expect(JSON.stringify(document).match(/"\$ref"/g)).toHaveLength(referred.length)
  })

  test('every parameter of a path is declared, and no other', () => {
    for (const { name, path, operation } of operations) {
      const declared = (operation.parameters ?? []).filter((each) => each.in === 'path').map((each) => each.name)
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter)
      expect([name, declared]).toEqual([name, inPath])
    }
  })

  test('schemas are JSON Schema 2020-12: no tuple in `items`', () => {
    expect(JSON.stringify(document)).not.toContain('"items":[')
  })
})

describe('an operation of the administration', () => {
  test('says scopes, success, failures and headers', () => {
    for (const { method, path, scopes, successStatus } of table) {
      const operation = operationOf(`${method} /admin/v1${template(path)}`)
      expect(operation['x-scopes']).toEqual([...scopes])
      for (const scope of scopes) expect(operation.description).toContain(`\`${scope}\``)
      const failing = method === 'GET' ? [400, 401, 403, 404, 504] : [400, 401, 403, 404, 409, 504]
      expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining([successStatus, ...failing].map(String)))
      const text = JSON.stringify(operation)
      for (const header of ['IdempotencyKey', 'IfMatch', 'X-Gateway-Revision', 'X-Gateway-Applied-By'])
        expect([method, path, header, text.includes(header)]).toEqual([method, path, header, method !== 'GET'])
      expect(text).toContain('parameters/MinRevision')
    }
    const shown = JSON.stringify(operationOf('GET /admin/v1/keys/{id}'))
    expect(shown).toContain('parameters/AsOf')
    expect(shown).toContain('X-Gateway-As-Of')
    expect(JSON.stringify(operationOf('GET /admin/v1/scores'))).not.toContain('AsOf')
  })

  test('of the console says the headers of a write', () => {
    for (const { method, path } of auth) {
      const text = JSON.stringify(operationOf(`${method} /admin/v1/auth${path}`))
      for (const header of ['X-Gateway-Revision', 'X-Gateway-Applied-By'])
        expect([path, header, text.includes(header)]).toEqual([path, header, method !== 'GET'])
    }
  })

  test('says which read-only fields of a body are ignored', () => {
    const { description, content } = operationOf('PATCH /admin/v1/keys/{id}').requestBody as unknown as {
      description: string
      content: Record<string, { schema: { properties: Record<string, { readOnly?: boolean }> } }>
    }
    expect(description).toContain('id, created_at, updated_at, revision, managed_by, status, revoked_at, last_used_at')
    expect(content['application/json']!.schema.properties.last_used_at!.readOnly).toBe(true)
  })

  test('needs a key or a session; the header of the key is the configured one', () => {
    expect(operationOf('GET /admin/v1/tenants').security).toEqual([{ key: [] }, { session: [] }])
    expect(document.components.securitySchemes.key).toEqual({ type: 'http', scheme: 'bearer' })
    expect(document.components.securitySchemes.session).toMatchObject({ in: 'cookie', name: 'gateway_session' })
    const other = openApiDocument({ ...options, authHeader: 'x-api-key' })
    expect(other.components.securitySchemes.key).toEqual({ type: 'apiKey', in: 'header', name: 'x-api-key' })
  })

  test('each write with a body has an example, which its schema takes', () => {
    const bodies = [
      ...table.map(({ method, path, bodySchema }) => [`${method} ${path}`, bodySchema] as const),
      ...auth.map(({ method, path, bodySchema }) => [`${method} /auth${path}`, bodySchema] as const),
      ['POST /v1/chat/completions', ChatRequest] as const,
      ['POST /v1/feedback', FeedbackBody] as const,
    ].filter(([, schema]) => schema !== null)
    for (const [name, schema] of bodies) {
      const example = EXAMPLES[name]
      const errors = [...Value.Errors(schema!, example)].map(({ path, message }) => `${path} ${message}`)
      expect([name, errors]).toEqual([name, []])
      const [method, path] = name.split(' ')
      const full = path!.startsWith('/v1/') ? path! : `/admin/v1${template(path!)}`
      const { content } = operationOf(`${method} ${full}`).requestBody!
      expect(content['application/json']!.example).toEqual(example as object)
    }
    expect(Object.keys(EXAMPLES).toSorted()).toEqual(bodies.map(([name]) => name).toSorted())
  })

  test('each field of a body says what it is', () => {
    const silent: string[] = []
    const look = (schema: Described, at: string): void => {
      for (const member of [...(schema.anyOf ?? []), ...(schema.items === undefined ? [] : [schema.items])])
        look(member, at)
      for (const [name, member] of Object.entries(schema.properties ?? {})) {
        if (!member.description) silent.push(`${at}.${name}`)
        look(member, `${at}.${name}`)
      }
    }
    for (const { name, operation } of operations) {
      if (!name.includes('/admin/v1')) continue
      const schema = operation.requestBody?.content['application/json']?.schema
      if (schema !== undefined) look(schema as Described, name)
    }
    expect(silent).toEqual([])
  })

  test('each answer of the administration has words of its own', () => {
    for (const { name, operation } of operations) {
      if (!name.includes('/admin/v1')) continue
      for (const [status, answer] of Object.entries(operation.responses)) {
        const { content, description } = answer as {
          content?: Record<string, { example?: unknown }>
          description?: string
        }
        if (!status.startsWith('2') || content === undefined || content['application/json'] === undefined) continue
        if (name.includes('/auth/')) continue
        expect([name, description]).not.toEqual([name, (operation as { summary?: string }).summary])
      }
    }
  })
})

describe('the page', () => {
  const page = docsPage(document)

  test('shows every operation, with an entry in the contents and a line for the shell', () => {
    for (const { operation } of operations) {
      expect(page).toContain(`<section id="${operation.operationId}">`)
      expect(page).toContain(`href="#${operation.operationId}"`)
    }
    expect(page.match(/<pre>curl/g)).toHaveLength(operations.length)
    const curl = `curl \\\n  &quot;$GATEWAY/admin/v1/tenants&quot; \\\n  -H &quot;Authorization: Bearer $KEY&quot;`
    expect(page).toContain(curl)
    expect(page).not.toContain('[object Object]')
    expect(page).not.toContain('undefined')
  })

  test('S35: asks no other host, and runs nothing', () => {
    expect(page).not.toMatch(/https?:\/\/|<script|<link|<img|<iframe|@import|url\(|\son\w+=|javascript:/i)
    const targets = [...page.matchAll(/\b(?:href|src|action|srcset)="([^"]*)"/g)].map(([, target]) => target!)
    expect(targets.filter((target) => !target.startsWith('#'))).toEqual(['/openapi.json'])
    const ids = [...page.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id!)
    expect(targets.filter((target) => target.startsWith('#') && !ids.includes(target.slice(1)))).toEqual([])
    expect(new Set(ids).size).toBe(ids.length)
  })

  test('its policy allows the style sheet that it has, and nothing else', () => {
    const [, style] = /<style>([\s\S]*?)<\/style>/.exec(page)!
    const digest = new Bun.CryptoHasher('sha256').update(style!).digest('base64')
    expect(PAGE_HEADERS['content-security-policy']!.split('; ')).toEqual([
      "default-src 'none'",
      `style-src 'sha256-${digest}'`,
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ])
  })

  test('S35: what is in the document is text, never markup', () => {
    const info = { ...document.info, title: '<script>alert(1)</script>', description: `<b onclick="x">'` }
    const html = docsPage({ ...document, info })
    expect(html).not.toContain('<script>')
    expect(html).not.toContain('<b onclick')
  })
})
