// `/schemas/`: public, cached, and where each record's `dataschema` points.
import { afterAll, expect, test } from 'bun:test'
import { recordedExamples } from '../../src/commands/topic-docs.ts'
import { compileSchema } from '../../src/lib/json-schema/json-schema.ts'
import { EVENT_CONTRACTS } from '../../src/upkeep/contracts/event-contracts.ts'
import { testGateway } from '../inference/gateway.ts'

const gateway = testGateway({ entries: [] })
afterAll(() => gateway.close())
const get = (path: string) => gateway.send(path, { key: null })

test('the index names every event type with the place of its schema, with and without a slash', async () => {
  for (const path of ['/schemas', '/schemas/']) {
    const answer = await get(path)
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json'])
    const { schemas } = (await answer.json()) as { schemas: { type: string; href: string }[] }
    expect(schemas.map(({ type }) => type)).toEqual(EVENT_CONTRACTS.map(({ type }) => type))
    for (const { href } of schemas) expect([href, (await get(href)).status]).toEqual([href, 200])
  }
})

test('the dataschema of a recorded envelope leads to the schema that its data conforms to, for a day', async () => {
  const examples = recordedExamples()
  for (const { type } of EVENT_CONTRACTS.filter(({ topic }) => topic !== 'control')) {
    const { dataschema, data } = examples[type] as { dataschema: string; data: unknown }
    const answer = await get(dataschema)
    expect([type, answer.status]).toEqual([type, 200])
    expect(answer.headers.get('content-type')).toBe('application/schema+json')
    expect(answer.headers.get('cache-control')).toContain('max-age=86400')
    expect([type, compileSchema(await answer.json(), 'draft-07').firstError(data)]).toEqual([type, null])
  }
})

test('an unknown one is 404 as everywhere', async () => {
  const answer = await get('/schemas/request.forgotten.json')
  expect(answer.status).toBe(404)
  expect(await answer.json()).toMatchObject({ error: { code: 'not_found' } })
})
