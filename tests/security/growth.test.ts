// What others send never makes the log grow without measure: each field has a bound, and so has each record.
import { afterAll, expect, test } from 'bun:test'
import { Kind, type TSchema } from '../../src/lib/schema/schema.ts'
import { nameOf } from '../http/admin/world/access.ts'
import { bodyOf, furnish, OWN, pathOf } from '../http/admin/world/furnished.ts'
import { entry, testGateway } from '../inference/gateway.ts'
import { startUpstream } from '../services/upstream.ts'

const upstream = startUpstream()
const gateway = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })] })
afterAll(async () => {
  gateway.close()
  await upstream.stop()
})

const MAX_EVENT_BYTES = 49_152
const MAX_REQUEST_RECORD_BYTES = 8_192
const LARGE = 'x'.repeat(200_000)

const alternatives = (schema: TSchema): readonly TSchema[] => (schema.anyOf as TSchema[] | undefined) ?? [schema]

/** Every place of a schema that takes a text or a list, with its path. */
const places = (schema: TSchema, path: readonly string[] = []): readonly (readonly [string, TSchema])[] =>
  alternatives(schema).flatMap((one): readonly (readonly [string, TSchema])[] => {
    const members = Object.entries((one.properties ?? {}) as Record<string, TSchema>)
    const inner = members.flatMap(([name, member]) => places(member, [...path, name]))
    if (one[Kind] === 'Array') return [[path.join('.'), one], ...places(one.items as TSchema, [...path, '0'])]
    return one[Kind] === 'String' ? [[path.join('.'), one], ...inner] : inner
  })

test('S37: every text and every list of a write has a bound', async () => {
  const { table } = await furnish()
  const unbounded = table.flatMap((route) =>
    route.bodySchema === null
      ? []
      : places(route.bodySchema)
          .filter(([, { maxLength, maxItems }]) => maxLength === undefined && maxItems === undefined)
          .map(([path]) => `${nameOf(route)}: ${path}`),
  )
  expect(unbounded).toEqual([])
})

test('S37: a write with one field of 200,000 characters is refused by its name, and nothing is written', async () => {
  const world = await furnish()
  let tried = 0
  for (const route of world.table) {
    if (route.bodySchema === null) continue
    const good = bodyOf(route, world.own, OWN) as Record<string, unknown>
    const names = Object.entries((route.bodySchema.properties ?? {}) as Record<string, TSchema>)
    for (const [name, schema] of names) {
      if (!alternatives(schema).some((one) => one[Kind] === 'String' && one.const === undefined)) continue
      const before = world.fingerprint()
      const answer = await world.gateway.call(route.method, pathOf(route.path, world.own), {
        body: { ...good, [name]: LARGE },
      })
      expect([nameOf(route), name, answer.status, world.fingerprint() === before]).toEqual([
        nameOf(route),
        name,
        400,
        true,
      ])
      tried++
    }
  }
  expect(tried).toBeGreaterThan(40)
  expect(world.gateway.events.every((event) => JSON.stringify(event).length <= MAX_EVENT_BYTES)).toBe(true)
})

test('S37: whatever a request says, its records are small: names, labels, users, tools and formats included', async () => {
  const messages = [{ role: 'user', content: LARGE }]
  const named = (name: string) => ({
    type: 'function',
    function: { name, description: LARGE, parameters: { type: 'object' } },
  })
  const metadata = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`key${i}`, 'x'.repeat(100)]))
  const bodies: Record<string, unknown>[] = [
    { model: LARGE, messages },
    { model: 'small', messages, user: LARGE },
    { model: 'small', messages, metadata: { ...metadata, user_id: LARGE } },
    { model: 'small', messages, tools: Array.from({ length: 100 }, (_, i) => named(`tool_${i}`)) },
    { model: 'small', messages, stop: Array.from({ length: 1_000 }, () => 'x'.repeat(50)) },
    { model: 'small', messages, response_format: { type: 'x'.repeat(60) } },
    { model: 'small', messages, [LARGE]: LARGE },
  ]
  const headers = { 'x-request-id': LARGE, traceparent: LARGE, tracestate: LARGE, 'user-agent': LARGE }
  for (const body of bodies) await (await gateway.chat(body, headers)).text()
  upstream.next({ text: LARGE })
  await (await gateway.chat({ model: 'small', messages })).text()
  upstream.next({ status: 500, body: LARGE })
  await (await gateway.chat({ model: 'small', messages })).text()
  const sizes = gateway.spool.records.map(({ type, data }) => [type, JSON.stringify(data).length] as const)
  expect(sizes.length).toBeGreaterThan(bodies.length)
  expect(sizes.filter(([, bytes]) => bytes > MAX_REQUEST_RECORD_BYTES)).toEqual([])
})
