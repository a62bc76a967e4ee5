// `/openapi.json`: it names the served routes and nothing else, and describes bodies as the gateway reads them.
import { describe, expect, test } from 'bun:test'
import { readIntent } from '../../src/inference/intent/intent.ts'
import { type TSchema, Value } from '../../src/lib/schema/schema.ts'
import { ChatCompletion, ErrorEnvelope } from '../../src/wire/answer-schemas.ts'
import { ChatRequest } from '../../src/wire/chat-request.ts'
import { ERRORS, GatewayError } from '../../src/wire/errors.ts'
import { ModelList } from '../../src/wire/models.ts'
import type { TestGateway } from '../inference/gateway.ts'
import { gatewaysOnUpstream } from './gateways.ts'

const { upstream, gatewayWith } = gatewaysOnUpstream()

interface Document {
  readonly openapi: string
  readonly paths: Readonly<
    Record<string, Readonly<Record<string, { operationId: string; responses: object; security?: unknown[] }>>>
  >
  readonly components: { readonly schemas: object; readonly securitySchemes: object }
}
const documentOf = async (gateway: TestGateway): Promise<Document> => {
  const response = await gateway.send('/openapi.json', { key: null })
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/json'])
  return (await response.json()) as Document
}
const operationsOf = ({ paths }: Document) =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  )

describe('the document', () => {
  test('is public, names an id for each operation, and holds what it refers to', async () => {
    const document = await documentOf(gatewayWith())
    expect(document.openapi).toBe('3.1.0')
    const ids = operationsOf(document).map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
    const referred = [...JSON.stringify(document).matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name!)
    expect([...new Set(referred)].sort()).toEqual(Object.keys(document.components.schemas).sort())
  })

  test('every operation in it is served, with a documented status; all that is served is in it', async () => {
    const gateway = gatewayWith()
    const document = await documentOf(gateway)
    for (const { path, method, operation } of operationsOf(document)) {
      const key = operation.security === undefined ? undefined : null
      const body = method === 'POST' ? {} : undefined
      const answer = await gateway.send(path.replace('{model}', 'small').replace('{name}', 'envelope.json'), {
        method,
        body,
        key,
      })
      expect([method, path, Object.keys(operation.responses)]).toEqual([
        method,
        path,
        expect.arrayContaining([String(answer.status)]),
      ])
      expect([method, path, answer.status]).not.toEqual([method, path, 404])
    }
    const root = (await (await gateway.send('/', { key: null })).json()) as { endpoints: string[] }
    const documented = operationsOf(document).map(({ path, method }) => `${method} ${path}`)
    expect(documented).toEqual(expect.arrayContaining(root.endpoints))
    expect(documented).toEqual(
      expect.arrayContaining(['completions', 'embeddings', 'responses', 'feedback'].map((name) => `POST /v1/${name}`)),
    )
  })

  test('is 404 when it is switched off, and leaves out metrics that are', async () => {
    const without = gatewayWith({ docsEnabled: false })
    for (const path of ['/openapi.json', '/docs', '/schemas', '/schemas/envelope.json']) {
      const response = await without.send(path, { key: null })
      expect([path, response.status]).toEqual([path, 404])
      expect(await response.json()).toMatchObject({ error: { code: 'not_found' } })
    }
    expect(Object.keys((await documentOf(gatewayWith({ prometheusEnabled: false }))).paths)).not.toContain('/metrics')
  })

  test('is served as a page too, under a strict policy', async () => {
    const response = await gatewayWith().send('/docs', { key: null })
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
    expect(response.headers.get('content-security-policy')).toStartWith("default-src 'none'; style-src 'sha256-")
    expect(response.headers.get('x-request-id')).toBeTruthy()
    expect(await response.text()).toContain('id="createChatCompletion"')
  })

  test('documents every code of the table', async () => {
    const text = JSON.stringify(await documentOf(gatewayWith()))
    // A client that has left gets no answer.
    for (const code of Object.keys(ERRORS)) if (code !== 'request_canceled') expect(text).toContain(code)
  })
})

describe('answers are as the document says', () => {
  const expectAs = async (schema: TSchema, response: Response) =>
    expect([...Value.Errors(schema, await response.json())].map(({ path, message }) => `${path} ${message}`)).toEqual(
      [],
    )

  test('a completion, the models, and failures of each kind', async () => {
    const gateway = gatewayWith()
    const messages = [{ role: 'user', content: 'x' }]
    await expectAs(ChatCompletion, await gateway.chat({ model: 'small', messages }, { 'X-Gateway-Debug': 'true' }))
    await expectAs(ModelList, await gateway.send('/v1/models'))
    await expectAs(ErrorEnvelope, await gateway.chat({ model: 'none', messages }))
    await expectAs(ErrorEnvelope, await gateway.send('/v1/models', { key: null }))
    await expectAs(ErrorEnvelope, await gateway.send('/v1/responses', { body: {} }))
    upstream.next({ status: 400 })
    await expectAs(ErrorEnvelope, await gateway.chat({ model: 'small', messages }))
  })
})

describe('ChatRequest and the reading of bodies agree', () => {
  const base = { model: 'm', messages: [{ role: 'user', content: 'x' }] }
  const accepts = (body: Record<string, unknown>): boolean => {
    try {
      readIntent(JSON.stringify(body), body, new Headers())
      return true
    } catch (error) {
      if (error instanceof GatewayError && error.status === 400) return false
      throw error
    }
  }
  const tool = (more: object) => ({ tools: [{ type: 'function', function: { name: 'f', ...more } }] })
  const good: Record<string, unknown>[] = [
    {},
    { messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }, { type: 'hologram' }] }] },
    { messages: [{ role: 'assistant', content: null, tool_calls: [] }] },
    { messages: undefined, prompt: 'x' },
    { system: 'x', stream: true, stream_options: { include_usage: true } },
    { top_k: 1, min_p: 0, repetition_penalty: 0, n: 128 },
    { top_k: null, min_p: null, seed: null, tools: null, stop: null, response_format: null, metadata: null },
    { max_tokens: 1_000_000_000, max_completion_tokens: 1 },
    { ...tool({ parameters: { type: 'object', properties: {} }, strict: true }), tool_choice: 'required' },
    { ...tool({}), tool_choice: { type: 'function', function: { name: 'f' } }, parallel_tool_calls: false },
    { tool_execution: { mode: 'automatic' } },
    { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object' } } } },
    { metadata: { user_id: 'u', more: [1] }, user: 'u', future_field: {} },
  ]
  const bad: Record<string, unknown>[] = [
    { model: undefined },
    { model: '' },
    { model: ' ' },
    { model: 'm'.repeat(257) },
    { model: 7 },
    { messages: undefined },
    { messages: [] },
    { messages: 'x' },
    { messages: [{ content: 'x' }] },
    { messages: [{ role: 'user', content: 7 }] },
    { messages: [{ role: 'user', content: [{ text: 'x' }] }] },
    { messages: undefined, prompt: 7 },
    { system: 7 },
    { stream: 'true' },
    { stream: true, stream_options: { include_usage: 1 } },
    { top_k: 0 },
    { top_k: 1.5 },
    { top_k: 2 ** 53 },
    { min_p: 1.01 },
    { repetition_penalty: -1 },
    { n: 0 },
    { n: 129 },
    { max_tokens: 0 },
    { max_completion_tokens: 1_000_000_001 },
    { tools: {} },
    tool({ name: 'a b' }),
    tool({ parameters: { type: 'string' } }),
    tool({ strict: 'yes' }),
    { tools: [{ function: { name: 'f' } }] },
    { ...tool({}), tool_choice: 'perhaps' },
    { ...tool({}), parallel_tool_calls: 'no' },
    { tool_execution: { mode: 'sometimes' } },
    { tool_execution: 'manual' },
    { response_format: 'json' },
    { response_format: { type: 'json_schema' } },
    { metadata: 'u' },
  ]
  const asSent = (change: Record<string, unknown>) =>
    JSON.parse(JSON.stringify({ ...base, ...change })) as Record<string, unknown>
  const fits = (body: Record<string, unknown>): boolean =>
    Value.Check(ChatRequest, body) && (body.messages !== undefined || body.prompt !== undefined)

  test('on what is right', () => {
    for (const change of good) {
      const body = asSent(change)
      expect([change, fits(body), accepts(body)]).toEqual([change, true, true])
    }
  })

  test('on what is wrong', () => {
    for (const change of bad) {
      const body = asSent(change)
      expect([change, fits(body), accepts(body)]).toEqual([change, false, false])
    }
  })
})
