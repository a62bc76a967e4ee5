// The examples of the OpenAPI document: recorded answers, which conform to their schemas and look like those of a
// gateway that runs. `bun tests/recorders/record-answers.ts` records them anew.
import { describe, expect, test } from 'bun:test'
import { closed } from '../../src/domain/kernel/fields.ts'
import { answerExample } from '../../src/http/docs/answer-examples.ts'
import { openApiDocument } from '../../src/http/docs/document.ts'
import { compileSchema } from '../../src/lib/json-schema/json-schema.ts'
import { Value } from '../../src/lib/schema/schema.ts'
import { entry } from '../inference/gateway.ts'
import { stableAnswers } from '../recorders/stable-answers.ts'
import { document, operations, options, resolved, table } from './documented.ts'
import { gatewaysOnUpstream } from './gateways.ts'

const { gatewayWith } = gatewaysOnUpstream()

interface Json {
  readonly schema: object
  readonly example?: unknown
}
interface Shown {
  readonly content?: Readonly<Record<string, Json>>
}

/** Responses of JSON, of success and of `/ready` that is not. */
const shown = operations.flatMap(({ name, operation }) =>
  Object.entries(operation.responses).flatMap(([status, response]) => {
    const json = resolved(response as Shown).content?.['application/json']
    const isOwn = status.startsWith('2') || (status === '503' && /\/read/.test(name))
    return json === undefined || !isOwn ? [] : [[`${name} ${status}`, json] as const]
  }),
)
/** Documents of other forms: this one, and the schemas of the topics. */
const WITHOUT = new Set(['GET /openapi.json 200'])

/** Every member of a value, with its path. */
const membersOf = (value: unknown, at = ''): [path: string, value: unknown][] =>
  value === null || typeof value !== 'object'
    ? []
    : Object.entries(value).flatMap(([name, member]) => [
        [`${at}/${name}`, member] as [string, unknown],
        ...membersOf(member, `${at}/${name}`),
      ])

const PREFIXED = /^[a-z]+_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
/** A decision, and an event of one; a completion of a provider. */
const OTHER_IDS = /^([0-9a-f]{64}(\.\d+)?|chatcmpl-\w+)$/
/** Names of models as the wire of OpenAI has them; trace ids; a member of an event's data. */
const isName = (path: string): boolean => /^(\/data\/\d+)?\/id$/.test(path)

describe('an example', () => {
  test.each(shown.filter(([name]) => !WITHOUT.has(name)))('of %s is there and conforms', (_, { schema, example }) => {
    expect(example).toBeDefined()
    const whole = compileSchema({ allOf: [schema], components: document.components }, '2020-12')
    expect(whole.firstError(example)).toBeNull()
  })

  test.each(table.filter(({ answer, events }) => answer !== null && !events))(
    'of $method $path has no member that is not described',
    (route) => {
      const example = answerExample(route) as Record<string, unknown[]>
      const rows = route.rows === null || route.whole ? [example] : example[route.rows]!
      expect(rows.length).toBeGreaterThan(0)
      for (const row of rows) expect([...Value.Errors(closed(route.answer!), row)].map(({ path }) => path)).toEqual([])
    },
  )

  test('has ids with their prefix, states in words and times of its own day', () => {
    const wrong: string[] = []
    for (const [name, { example }] of shown) {
      for (const [path, value] of membersOf(example)) {
        const last = path.slice(path.lastIndexOf('/') + 1)
        const isId = /(^|_)id$/.test(last) && last !== 'trace_id' && value !== null && !path.startsWith('/config/')
        const isModel = name.startsWith('GET /v1/models') && isName(path)
        if (isId && !isModel && !PREFIXED.test(`${value}`) && !OTHER_IDS.test(`${value}`)) wrong.push(`${name} ${path}`)
        if (last === 'status' && typeof value === 'number' && value < 100) wrong.push(`${name} ${path}`)
        if (value === 'text' || (typeof value === 'string' && /^(19|20[01])\d\d-/.test(value)))
          wrong.push(`${name} ${path}`)
      }
    }
    expect(wrong).toEqual([])
  })

  test('holds no key, no path and no port of where it was recorded', () => {
    const text = JSON.stringify(shown)
    expect(text.match(/gw_live_(?!x{43})\w+/g)).toBeNull()
    expect(text.match(/"\/(tmp|work|root|home|var)\b/g)).toBeNull()
    expect(text.match(/127\.0\.0\.1:(?!8080)\d+/g)).toBeNull()
  })

  test('the document is the same each time', () => {
    expect(JSON.stringify(openApiDocument(options))).toBe(JSON.stringify(openApiDocument(options)))
  })
})

/** The names of all members, without the places in lists. */
const formOf = (value: unknown): string[] => [
  ...new Set(membersOf(value).map(([path]) => path.replaceAll(/\/\d+(?=\/|$)/g, '/*'))),
]

describe('an example has the members that a running gateway answers', () => {
  const exampleOf = (name: string): unknown => shown.find(([each]) => each === name)![1].example
  const gateway = gatewayWith({ entries: [entry({ name: 'gpt-4o-mini' })] })

  test.each(['/', '/health', '/version', '/v1/models', '/v1/models/{model}'])('GET %s', async (path) => {
    const answer = await gateway.send(path.replace('{model}', 'gpt-4o-mini'))
    const live = formOf(await answer.json()).filter((each) => !each.startsWith('/components/'))
    const recorded = formOf(exampleOf(`GET ${path} 200`)).filter((each) => !each.startsWith('/components/'))
    expect(recorded.toSorted()).toEqual(live.toSorted())
  })
})

describe('what is recorded becomes stable', () => {
  const startedMs = Date.UTC(2031, 4, 5, 6, 7, 8)
  const options = { startedMs, texts: [['/tmp/here', '.gateway']] } as const
  const id = crypto.randomUUID()

  test('equal ids stay equal, with their prefix; other runs give the same', () => {
    const one = stableAnswers({ id: `key_${id}`, of: `key_${id}`, other: `ten_${crypto.randomUUID()}` }, options)
    const two = stableAnswers(
      { id: `key_${crypto.randomUUID()}`, of: '', other: `ten_${crypto.randomUUID()}` },
      options,
    )
    expect(one.of).toBe(one.id)
    expect([one.id, one.other]).toEqual([two.id, two.other])
    expect(one.id).toMatch(/^key_0199a0c4-/)
  })

  test('times of the run move to its day, those that were sent stay; texts and keys are replaced', () => {
    const shown = stableAnswers(
      {
        at: new Date(startedMs + 1_400).toISOString(),
        at_ms: startedMs + 1_400,
        sent: '2026-10-01T00:00:00.000Z',
        dir: '/tmp/here',
        plaintext: `gw_live_${'a'.repeat(43)}`,
      },
      options,
    )
    expect(shown).toEqual({
      at: '2026-11-20T13:00:01.000Z',
      at_ms: Date.UTC(2026, 10, 20, 13, 0, 1),
      sent: '2026-10-01T00:00:00.000Z',
      dir: '.gateway',
      plaintext: `gw_live_${'x'.repeat(43)}`,
    })
  })
})
