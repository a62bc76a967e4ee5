// The documents of the topics: current, complete, and true of recorded events. And what the schemas may not become.
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { recordedExamples, topicDocuments } from '../../../src/commands/topic-docs.ts'
import { compileSchema, requireKnownKeywords } from '../../../src/lib/json-schema/json-schema.ts'
import { type TSchema, t } from '../../../src/lib/schema/schema.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { asyncApiText } from '../../../src/upkeep/contracts/asyncapi.ts'
import { EVENT_CONTRACTS } from '../../../src/upkeep/contracts/event-contracts.ts'
import { EVENT_DESCRIPTIONS } from '../../../src/upkeep/contracts/event-descriptions.ts'
import { messageSchema, plainSchema, schemaDocuments } from '../../../src/upkeep/contracts/message-schemas.ts'

const ROOT = join(import.meta.dir, '../../..')
/** The schema of schemas, its vocabularies within. */
const META = join(ROOT, 'tests/fixtures/json-schema/meta-2020-12.json')
const examples = recordedExamples()
const types = EVENT_CONTRACTS.map(({ type }) => type)
const enveloped = EVENT_CONTRACTS.filter(({ topic }) => topic !== 'control')

/** Paths of the fields that say nothing of themselves. */
const silentFields = (schema: TSchema, prefix = ''): string[] =>
  Object.entries((schema.properties as Record<string, TSchema> | undefined) ?? {}).flatMap(([name, member]) => {
    const items =
      member.type === 'array' && !Array.isArray(member.items) ? silentFields(member.items, `${name}[].`) : []
    return [...(member.description === undefined ? [`${prefix}${name}`] : []), ...items]
  })

describe('the documents', () => {
  test.each(Object.entries(topicDocuments()))('%s is what the generator makes', (path, text) => {
    // `npm run gateway -- topics --docs` writes it.
    expect(readFileSync(join(ROOT, path), 'utf8') === text).toBe(true)
  })

  test('every event has a description and a recorded example, and every description an event', () => {
    expect(EVENT_CONTRACTS.filter(({ description }) => description === '').map(({ type }) => type)).toEqual([])
    expect(types.filter((type) => examples[type] === undefined)).toEqual([])
    expect(Object.keys(EVENT_DESCRIPTIONS).sort()).toEqual([...types].sort())
  })

  test.each(enveloped.map(({ type, schema }) => [type, schema] as const))(
    'every field of %s says what it is',
    (_, schema) => {
      expect(silentFields(schema)).toEqual([])
    },
  )

  test('the AsyncAPI document has a channel for each topic, and holds what it refers to', () => {
    const text = asyncApiText(examples)
    const document = JSON.parse(text) as {
      asyncapi: string
      channels: Record<string, { address: string }>
    }
    expect(document.asyncapi).toBe('3.0.0')
    expect(
      Object.values(document.channels)
        .map(({ address }) => address)
        .sort(),
    ).toEqual(
      Object.values(TOPICS)
        .map(({ name }) => name as string)
        .sort(),
    )
    const refs = [...new Set([...text.matchAll(/"\$ref": "#\/([^"]+)"/g)].map(([, path]) => path!))]
    const missing = refs.filter(
      (path) =>
        path
          .split('/')
          .reduce<unknown>((node, part) => (node as Record<string, unknown> | undefined)?.[part], document) ===
        undefined,
    )
    expect([refs.length > types.length, missing]).toEqual([true, []])
  })
})

describe('the schemas', () => {
  const meta = compileSchema(JSON.parse(readFileSync(META, 'utf8')), '2020-12')
  const standing = [
    ...schemaDocuments(),
    ...Object.entries(
      (JSON.parse(asyncApiText(examples)) as { components: { schemas: Record<string, unknown> } }).components.schemas,
    ),
  ]
  test.each(standing)('%s names its draft, 2020-12, and is valid under it', (_, schema) => {
    expect(schema).toHaveProperty('$schema', 'https://json-schema.org/draft/2020-12/schema')
    expect(meta.firstError(schema)).toBeNull()
    expect(() => requireKnownKeywords(schema, '2020-12')).not.toThrow()
  })

  test('the meta-schema refuses tuples of draft-07', () => {
    expect(meta.firstError({ type: 'array', items: [{ type: 'string' }] })).toContain('/items')
  })

  test('a tuple has as many members as it names, each of its own kind', () => {
    const schema = compileSchema(plainSchema(t.Tuple([t.String(), t.Integer()])), '2020-12')
    expect(schema.firstError(['a', 1])).toBeNull()
    for (const wrong of [['a'], ['a', 1, 2], [1, 'a']]) expect(schema.firstError(wrong)).not.toBeNull()
  })

  test.each(enveloped.map((contract) => [contract.type, contract] as const))(
    'the recorded %s conforms, envelope and all',
    (type, contract) => {
      expect(compileSchema(messageSchema(contract), '2020-12').firstError(examples[type])).toBeNull()
    },
  )

  test('a recorded decision conforms, and each of its events to the schema of its type', () => {
    const documents = schemaDocuments()
    const decision = compileSchema(documents.get('decision.json'), '2020-12')
    for (const { type } of EVENT_CONTRACTS.filter(({ topic }) => topic === 'control')) {
      const recorded = examples[type] as { events: { type: string; data: unknown }[] }
      expect([type, decision.firstError(recorded)]).toEqual([type, null])
      for (const event of recorded.events) {
        const schema = compileSchema(documents.get(`${event.type}.json`), '2020-12')
        expect([event.type, schema.firstError(event.data)]).toEqual([event.type, null])
      }
    }
  })

  test('names what is missing', () => {
    const { outcome: _, ...short } = (examples['request.settled'] as { data: Record<string, unknown> }).data
    const schema = compileSchema(schemaDocuments().get('request.settled.json'), '2020-12')
    expect(schema.firstError(short)).toContain('outcome')
  })
})
