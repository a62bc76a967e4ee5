// Each operation of `/openapi.json` is complete: permissions, request, every answer and its failures.
import { expect, test } from 'bun:test'
import { OPERATIONS_ANSWERS } from '../../src/http/docs/operations-answers.ts'
import { Value } from '../../src/lib/schema/schema.ts'
import { document, operations, resolved } from './documented.ts'
import { gatewaysOnUpstream } from './gateways.ts'

const { gatewayWith } = gatewaysOnUpstream()

interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly anyOf?: readonly Schema[]
  readonly allOf?: readonly Schema[]
  readonly items?: Schema
}
interface Answer {
  readonly description?: string
  readonly headers?: Readonly<Record<string, unknown>>
  readonly content?: Readonly<Record<string, { readonly schema?: Schema }>>
}

/** Answers whose shape is a standard of its own: OpenAPI and JSON Schema. */
const OF_A_STANDARD = ['GET /openapi.json', 'GET /schemas/{name}']

const answersOf = (responses: Readonly<Record<string, unknown>>) =>
  Object.entries(responses).map(([status, answer]) => [status, resolved(answer as Answer)] as const)

/** Whether a schema names its fields. */
const saysFields = (schema: Schema): boolean => {
  const { properties, anyOf, allOf, items } = resolved(schema)
  if (items !== undefined) return saysFields(items)
  const members = allOf ?? anyOf
  return members === undefined ? Object.keys(properties ?? {}).length > 0 : members.every(saysFields)
}

test('each operation has words, who may, and parameters that say what they are', () => {
  const lacking: string[] = []
  for (const { name, operation } of operations) {
    const { summary, description, security, parameters = [] } = operation
    if (!summary || !description || security === undefined) lacking.push(name)
    if (description?.startsWith('Needs no credential') !== (security?.length === 0)) lacking.push(`${name}: security`)
    for (const parameter of parameters.map(resolved))
      if (!parameter.description || parameter.schema === undefined) lacking.push(`${name}: ${parameter.name}`)
  }
  expect(lacking).toEqual([])
})

test('each operation that needs a scope names it', () => {
  for (const { name, operation } of operations) {
    const { 'x-scopes': scopes, description = '' } = operation
    const [status] = Object.keys(operation.responses)
    const isServed = Number(status) < 300
    const needsKey = operation.security?.some((each) => 'key' in each) === true
    expect([name, scopes !== undefined]).toEqual([name, isServed && needsKey])
    for (const scope of scopes ?? []) expect(description).toContain(`\`${scope}\``)
  }
})

test('each answer says what fields it has, each failure is an envelope', () => {
  const lacking: string[] = []
  for (const { name, operation } of operations) {
    const statuses = Object.keys(operation.responses)
    if (!['405', '500'].every((status) => statuses.includes(status))) lacking.push(`${name}: 405, 500`)
    for (const [status, { description, headers, content }] of answersOf(operation.responses)) {
      const at = `${name} ${status}`
      if (!description || headers?.['X-Request-ID'] === undefined) lacking.push(`${at}: words and headers`)
      if (content === undefined ? status !== '204' : Object.values(content).some(({ schema }) => schema === undefined))
        lacking.push(`${at}: content`)
      const schema = content?.['application/json']?.schema
      if (schema === undefined || OF_A_STANDARD.includes(name)) continue
      if (!saysFields(schema)) lacking.push(`${at}: fields`)
      if (status >= '4' && !JSON.stringify(schema).includes('schemas/ErrorEnvelope')) lacking.push(`${at}: envelope`)
    }
  }
  expect(lacking).toEqual([])
})

test('the operations surface answers as the document says', async () => {
  const gateway = gatewayWith()
  for (const [path, title] of [
    ['/', 'Service'],
    ['/health', 'Liveness'],
    ['/ready', 'Readiness'],
    ['/version', 'Version'],
    ['/schemas', 'EventSchemas'],
  ] as const) {
    const body = (await (await gateway.send(path, { key: null })).json()) as object
    const schema = OPERATIONS_ANSWERS[title]!
    expect([path, [...Value.Errors(schema, body)].map((each) => each.path)]).toEqual([path, []])
    expect([path, Object.keys(body).toSorted()]).toEqual([path, Object.keys(schema.properties as object).toSorted()])
    expect(document.components.schemas).toHaveProperty(title)
  }
})
