import { heapStats } from 'bun:jsc'
import { describe, expect, test } from 'bun:test'
import { emptySchemaCache, formatSchema } from '../../../src/inference/intent/format-schemas.ts'
import {
  checkStructured,
  fencedObject,
  MAX_ANSWER_CHARS,
  structuredJson,
  structuredRequestOf,
} from '../../../src/inference/intent/structured.ts'
import type { GatewayError } from '../../../src/wire/errors.ts'

const AT = 'response_format.json_schema.schema'
const schemaFormat = (schema: unknown) => ({ type: 'json_schema', json_schema: { name: 'x', schema } })
const check = (format: unknown, content: string) => checkStructured(structuredRequestOf(format)!, content)
const refusalOf = (act: () => unknown): GatewayError => {
  try {
    act()
  } catch (error) {
    return error as GatewayError
  }
  throw new Error('it was accepted')
}

// docs/behaviour.md: "Structured answers"
describe('the only object in a fence is extracted', () => {
  const cases: [name: string, text: string, object: string | null][] = [
    ['after words', 'Here it is:\n```json\n{"a": 1}\n```\nBye.', '{"a": 1}'],
    ['without a language', '```\n{"a":1}\n```', '{"a":1}'],
    ['indented, with carriage returns', '  ```JSON\r\n  {"a":1}\r\n  ```', '{"a":1}'],
    ['closed on its last line', '```json\n{"a":1}```', '{"a":1}'],
    ['never closed', '```json\n{"a":1}', null],
    ['with marks in a string', '```json\n{"a":"```x```"}\n```', '{"a":"```x```"}'],
    ['beside other code', '```python\nprint({})\n```\n```json\n{"a":1}\n```', '{"a":1}'],
    ['two objects', '```json\n{"a":1}\n```\n```json\n{"a":1}\n```', null],
    ['two objects in one fence', '```json\n{"a":1}\n{"b":2}\n```', null],
    ['a list', '```json\n[1]\n```', null],
    ['broken', '```json\n{"a":\n```', null],
    ['no fence', 'Sure: {"a":1}', null],
  ]
  test.each(cases)('%s', (_, text, object) => {
    expect(fencedObject(text)).toBe(object)
    expect(check({ type: 'json_object' }, text)).toMatchObject({ valid: object !== null, repaired: object })
  })

  test('in time that grows with the text only', () => {
    const before = performance.now()
    for (const text of ['```json\n{', '```\n', '\n```x', '{'.repeat(8)]) fencedObject(text.repeat(100_000))
    expect(performance.now() - before).toBeLessThan(15_000)
  })
})

describe('an answer', () => {
  test('to json_object must be an object', () => {
    for (const text of ['[1]', '"x"', '1', 'null', '', 'no', '{"a":1} {"b":2}'])
      expect(check({ type: 'json_object' }, text)).toMatchObject({ valid: false, repaired: null })
    expect(check({ type: 'json_object' }, ' {"a":[]} ')).toEqual({ valid: true, error: null, repaired: null })
  })

  test('to json_schema must meet the schema, wherever it stood', () => {
    const format = schemaFormat({ type: 'array', items: { type: 'integer' } })
    expect(check(format, '[1,2]').valid).toBe(true)
    expect(check(format, '[1,"2"]').error).toBe('/1 must be integer')
    const object = schemaFormat({ properties: { a: { type: 'integer' } } })
    expect(check(object, '```json\n{"a":"1"}\n```')).toEqual({
      valid: false,
      error: '/a must be integer',
      repaired: null,
    })
  })

  test('without a schema of its own must be JSON', () => {
    const format = { type: 'json_schema', json_schema: { name: 'x' } }
    expect(check(format, '[1]').valid).toBe(true)
    expect(check(format, 'no').valid).toBe(false)
  })

  test('that is very long is not checked, and does not pass', () => {
    expect(check({ type: 'json_object' }, `{"a":"${'x'.repeat(MAX_ANSWER_CHARS)}"}`)).toMatchObject({ valid: false })
  })

  test('S26: as large as may be is checked in bounded time', () => {
    const objects = `[${'{"name":"someone","age":40,"tags":["a","b"]},'.repeat(40_000)}{}]`
    const format = schemaFormat({
      items: { properties: { name: { type: 'string', pattern: '^[a-z]+$' }, age: { type: 'integer' } } },
    })
    const before = performance.now()
    expect(check(format, objects).valid).toBe(true)
    expect(performance.now() - before).toBeLessThan(15_000)
  })
})

// docs/behaviour.md: "Structured answers"
describe('a schema', () => {
  test.each([
    ['of no known type', { type: 'strng' }, '#/type'],
    ['that leads elsewhere', { $ref: 'https://example.com/x.json' }, 'leads outside'],
    ['that leads to itself', { allOf: [{ $ref: '#' }] }, 'without an end'],
    ['with a pattern that is none', { pattern: '(' }, '#/pattern'],
    ['of a dialect that is not known', { $schema: 'https://example.com/dialect' }, '$schema'],
    ['whose dialect is no text', { $schema: 7 }, '$schema'],
    ['that is very large', { enum: ['x'.repeat(300_000)] }, 'larger'],
  ])('%s is 400, naming it', (_, schema, words) => {
    const error = refusalOf(() => structuredRequestOf(schemaFormat(schema)))
    expect(error).toMatchObject({ code: 'invalid_request', status: 400, param: AT })
    expect(error.message).toContain(words)
  })

  test('says by its $schema which dialect it is of', () => {
    const tuple = { items: [{ type: 'integer' }] }
    for (const $schema of ['http://json-schema.org/draft-07/schema#', 'http://json-schema.org/draft-04/schema'])
      expect(formatSchema({ ...tuple, $schema }, false, AT).firstError(['x'])).toBe('/0 must be integer')
    for (const $schema of ['https://json-schema.org/draft/2020-12/schema', 'http://json-schema.org/schema#'])
      expect(refusalOf(() => formatSchema({ ...tuple, $schema }, false, AT)).message).toContain('prefixItems')
    expect(refusalOf(() => formatSchema(tuple, false, AT)).message).toContain('prefixItems')
  })

  test('whose pattern RE2 does not have is used without it, and says so', () => {
    // As pydantic and zod write them.
    const decimal = '^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$'
    const email =
      "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"
    const format = schemaFormat({
      properties: {
        amount: { type: 'string', pattern: decimal },
        mail: { pattern: email },
        code: { pattern: '^[A-Z]$' },
      },
    })
    const request = structuredRequestOf(format)!
    expect(request.schema!.unchecked).toEqual(['#/properties/amount/pattern', '#/properties/mail/pattern'])
    expect(checkStructured(request, '{"amount":"1.5","mail":"no","code":"A"}').valid).toBe(true)
    expect(checkStructured(request, '{"amount":1}').error).toBe('/amount must be string')
    expect(checkStructured(request, '{"code":"a"}').error).toStartWith('/code must match')
    expect(JSON.parse(`{${structuredJson(request, null).slice(1)}}`)).toMatchObject({
      structured: { unchecked: request.schema!.unchecked },
    })
  })

  test('checks formats where `strict` asks for it', () => {
    const schema = { properties: { at: { type: 'string', format: 'time' } } }
    const of = (strict?: unknown) => ({ type: 'json_schema', json_schema: { name: 'x', schema, strict } })
    for (const strict of [true, false, null, undefined])
      expect([strict, check(of(strict), '{"at":"soon"}').valid]).toEqual([strict, strict !== true])
    expect(check(of(true), '{"at":"12:30:00"}').valid).toBe(true)
  })

  test('S42: compiled schemas are kept up to 32 MB, whatever they weigh, and dropped when memory is short', () => {
    emptySchemaCache()
    const hostile = (of: number) => ({
      properties: Object.fromEntries(
        Array.from({ length: 90 }, (_, i) => [`p${i}`, { pattern: `^[a-zA-Z]{1,90}${of}-${i}$` }]),
      ),
    })
    Bun.gc(true)
    const before = heapStats().heapSize
    for (let i = 0; i < 60; i++) formatSchema(hostile(i), false, AT)
    Bun.gc(true)
    // Without a bound they would take hundreds of megabytes. The resident size says less: it keeps what was freed.
    expect(heapStats().heapSize - before).toBeLessThan(100 * 1024 * 1024)
    const kept = emptySchemaCache()
    expect(kept).toBeGreaterThan(10 * 1024 * 1024)
    expect(kept).toBeLessThanOrEqual(32 * 1024 * 1024)
    expect(emptySchemaCache()).toBe(0)
  })

  test('S26: that was seen before is not compiled again, until others have taken its place', () => {
    const first = formatSchema({ title: 'first' }, false, AT)
    expect(formatSchema({ title: 'first' }, false, AT)).toBe(first)
    for (let i = 0; i < 255; i++) formatSchema({ title: `other ${i}` }, false, AT)
    expect(formatSchema({ title: 'first' }, false, AT)).toBe(first)
    for (let i = 0; i < 10; i++) formatSchema({ title: `large ${i}`, description: 'x'.repeat(250_000) }, false, AT)
    expect(formatSchema({ title: 'first' }, false, AT)).not.toBe(first)
  })

  test('may have an $id, and the same one as another', () => {
    const $id = 'https://example.com/same'
    expect(formatSchema({ $id, type: 'string' }, false, AT).firstError('x')).toBeNull()
    expect(formatSchema({ $id, type: 'integer' }, false, AT).firstError('x')).not.toBeNull()
  })
})
