// The other built-in tools: results, refusals, bounds.
import { describe, expect, test } from 'bun:test'
import { BUILTIN_TOOLS } from '../../../../src/domain/registry/builtin-tools.ts'
import { BUILTIN_HANDLERS } from '../../../../src/inference/run/builtin/builtin.ts'
import { type ToolContext, ToolFailure } from '../../../../src/inference/run/builtin/handler.ts'
import { compileSchema, requireKnownKeywords } from '../../../../src/lib/json-schema/json-schema.ts'

const context = (nowMs = 0): ToolContext => ({
  nowMs: () => nowMs,
  signal: new AbortController().signal,
  readText: async (url) => ({ status: 200, contentType: 'text/plain', text: `text of ${url}`, truncated: false }),
})
type Name = keyof typeof BUILTIN_HANDLERS
const result = async (name: Name, args: Record<string, unknown>, at = context()): Promise<unknown> =>
  JSON.parse(await BUILTIN_HANDLERS[name](args, at))
const failure = async (name: Name, args: Record<string, unknown>): Promise<ToolFailure> => {
  const error = await result(name, args).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(ToolFailure)
  return error as ToolFailure
}

test('each tool has a schema of 2020-12 that takes no unknown member', () => {
  for (const { parameters } of Object.values(BUILTIN_TOOLS)) {
    requireKnownKeywords(parameters, '2020-12')
    expect(compileSchema(parameters, '2020-12').firstError({ unknown: 1 })).not.toBeNull()
  }
  expect(Object.keys(BUILTIN_HANDLERS)).toEqual(Object.keys(BUILTIN_TOOLS))
})

describe('current_time', () => {
  const summer = Date.UTC(2026, 6, 1, 22, 30, 5, 900)

  test('is in UTC without a time zone', async () => {
    expect(await result('current_time', {}, context(summer))).toEqual({
      utc: '2026-07-01T22:30:05Z',
      local: '2026-07-01T22:30:05Z',
      timezone: 'UTC',
      weekday: 'Wednesday',
      unix_seconds: Math.floor(summer / 1_000),
    })
  })

  test.each([
    ['Europe/Berlin', '2026-07-02T00:30:05+02:00', 'Thursday'],
    ['Asia/Kolkata', '2026-07-02T04:00:05+05:30', 'Thursday'],
    ['America/Los_Angeles', '2026-07-01T15:30:05-07:00', 'Wednesday'],
  ])('in %s has the offset of that day', async (timezone, local, weekday) => {
    expect(await result('current_time', { timezone }, context(summer))).toMatchObject({ local, weekday })
  })

  test('refuses a zone that does not exist', async () => {
    expect((await failure('current_time', { timezone: 'Mars/Olympus' })).message).toContain('"Mars/Olympus"')
  })
})

describe('json_query', () => {
  const people = {
    people: [
      { name: 'Ada', age: 36 },
      { name: 'Bob', age: 12 },
    ],
  }

  test.each([
    ['people[?age > `30`].name', ['Ada']],
    ['sort_by(people, &age)[0].name', 'Bob'],
    ["join(', ', people[].name)", 'Ada, Bob'],
    ['missing', null],
    ['people[].{n: name}', [{ n: 'Ada' }, { n: 'Bob' }]],
  ])('%s', async (expression, selected) => {
    expect(await result('json_query', { data: people, expression })).toEqual(selected)
  })

  test.each(['people[', '', 'unknown(@)', 'abs(people)'])('refuses %p with the reason', async (expression) => {
    expect(await failure('json_query', { data: people, expression })).toMatchObject({ code: 'bad_arguments' })
  })

  test.each([
    Array(40).fill('[@,@]').join('|'),
    `${Array(40).fill('[@,@]').join('|')}|to_string(@)`,
    Array(30).fill('to_string(@)').join('|'),
    Array(30).fill('{a:@,b:@}').join('|'),
  ])('refuses an expression that multiplies the document', async (expression) => {
    expect(await failure('json_query', { data: people, expression })).toMatchObject({ code: 'too_large' })
  })

  test('refuses a separator that is not a short literal', async () => {
    expect(
      (await failure('json_query', { data: people, expression: 'join(people[0].name, keys(@))' })).message,
    ).toContain('literal')
  })

  test('bounds the result', async () => {
    const data = { items: Array(20_000).fill('item') }
    expect((await failure('json_query', { data, expression: 'items' })).code).toBe('too_large')
    expect(await result('json_query', { data, expression: 'length(items)' })).toBe(20_000)
  })
})

describe('text_search', () => {
  const texts = ['Refunds take five days.', 'Shipping is free above 50 euros.', 'A refund needs the receipt.']

  test('ranks the texts that match', async () => {
    const { results } = (await result('text_search', { query: 'receipt for a refund', texts })) as {
      results: { index: number; passage: string }[]
    }
    expect(results.map(({ index }) => index)).toEqual([2, 0])
    expect(results[0]!.passage).toBe(texts[2]!)
  })

  test('has no results where nothing matches', async () => {
    expect(await result('text_search', { query: 'zebra', texts })).toEqual({ results: [] })
  })

  test('shows the passage of a long text, and no half characters', async () => {
    const long = `${'😀 padding '.repeat(200)}needle${' more 😀'.repeat(200)}`
    const { results } = (await result('text_search', { query: 'needle', texts: [long], limit: 1 })) as {
      results: { passage: string }[]
    }
    expect(results[0]!.passage).toContain('needle')
    expect(results[0]!.passage.length).toBeLessThan(250)
    expect(results[0]!.passage.isWellFormed()).toBe(true)
  })

  test('bounds the texts', async () => {
    expect((await failure('text_search', { query: 'a', texts: ['a'.repeat(1_100_000)] })).code).toBe('too_large')
  })
})

test('http_get shows what was read', async () => {
  expect(await result('http_get', { url: 'https://docs.example.com/a' })).toEqual({
    status: 200,
    content_type: 'text/plain',
    text: 'text of https://docs.example.com/a',
    truncated: false,
  })
})
