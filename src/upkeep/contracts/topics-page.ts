// `docs/topics.md`: what an analytics team needs to build on the topics, made of the same schemas as everything else.
import type { TSchema } from '../../lib/schema/schema.ts'
import { TOPICS, type TopicName } from '../../log/topics.ts'
import type { RecordedExamples } from './asyncapi.ts'
import { contractsOf, type EventContract } from './event-contracts.ts'
import { ENVELOPE_FIELDS } from './message-schemas.ts'
import { keptFor, partitionsOf, TOPIC_CONTRACTS, TOPIC_NAMES } from './topic-contracts.ts'
import { COMPATIBILITY, CONTROL_RULE, READING } from './topics-prose.ts'

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')
const table = (headings: readonly string[], rows: readonly (readonly string[])[]): string =>
  [headings, headings.map(() => '---'), ...rows].map((row) => `| ${row.map(cell).join(' | ')} |`).join('\n')

interface Shape {
  readonly type?: string
  readonly const?: unknown
  readonly anyOf?: readonly Shape[]
  readonly items?: Shape | readonly Shape[]
}

/** A type as text: `text or null`, `list of text`, `` `a` or `b` ``. */
const typeOf = (schema: Shape): string => {
  if (schema.const !== undefined) return `\`${schema.const}\``
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeOf).join(' or ')
  if (schema.type === 'array') {
    const { items } = schema
    return items === undefined || Array.isArray(items) ? 'list' : `list of ${typeOf(items as Shape)}`
  }
  return TYPE_NAMES[schema.type ?? ''] ?? 'any'
}
const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: 'text',
  integer: 'whole number',
  number: 'number',
  boolean: 'true or false',
  object: 'object',
  null: 'null',
}

interface Field {
  readonly path: string
  readonly optional: boolean
  readonly schema: TSchema
}

/** The fields of an object, those of lists of objects and of inner objects below them. */
const fieldsOf = (schema: TSchema, prefix = ''): readonly Field[] => {
  const required = new Set((schema.required as readonly string[] | undefined) ?? [])
  return Object.entries((schema.properties as Record<string, TSchema> | undefined) ?? {}).flatMap(([name, member]) => {
    const path = `${prefix}${name}`
    const inner =
      member.type === 'array' && !Array.isArray(member.items)
        ? fieldsOf(member.items as TSchema, `${path}[].`)
        : fieldsOf(member, `${path}.`)
    return [{ path, optional: !required.has(name), schema: member }, ...inner]
  })
}

/** `described`: the fields carry descriptions, as those of every topic but control do. */
const fieldTable = (schema: TSchema, described: boolean): string => {
  const rows = fieldsOf(schema).map(({ path, optional, schema: member }) => [
    `\`${path}\`${optional ? ' (optional)' : ''}`,
    typeOf(member as Shape),
    ...(described ? [(member.description as string | undefined) ?? ''] : []),
  ])
  return table(['Field', 'Type', ...(described ? ['Meaning'] : [])], rows)
}

const json = (value: unknown): string => `\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\``

const eventSection = ({ type, description, schema, since }: EventContract, examples: RecordedExamples): string =>
  [
    `### ${type}`,
    `${description}${since > 1 ? ` Since event version ${since}.` : ''} Schema: \`/schemas/${type}.json\`.`,
    fieldTable(schema, true),
    'A recorded one:',
    json(examples[type] ?? {}),
  ].join('\n\n')

/** Decisions are long: of each type the event alone. */
const controlSection = ({ type, description, schema, since }: EventContract, examples: RecordedExamples): string => {
  const decision = examples[type] as { events?: readonly { type: string }[] } | undefined
  const event = decision?.events?.find((each) => each.type === type) ?? {}
  return [
    `### ${type}`,
    `${description}${since > 1 ? ` Since event version ${since}.` : ''} Schema: \`/schemas/${type}.json\`.`,
    fieldTable(schema, false),
    `\`\`\`json\n${JSON.stringify(event)}\n\`\`\``,
  ].join('\n\n')
}

const topicSection = (name: TopicName, examples: RecordedExamples): string => {
  const { summary, key, repeats, readers } = TOPIC_CONTRACTS[name]
  const events = contractsOf(name)
  const promises = [
    ['Partitions', partitionsOf(name)],
    ['Key', `${key}.`],
    ['Repeats', `Dropped by ${repeats}.`],
    ['Kept', `${keptFor(name)}.`],
    ['Readers', readers === 'anybody' ? 'Anybody whom the brokers’ ACLs let.' : 'Gateways alone.'],
  ]
  const about = [`## ${TOPICS[name].name}`, summary, table(['What', 'Promise'], promises)]
  if (events.length === 0) return [...about, 'Nothing is written to it yet.'].join('\n\n')
  const section = name === 'control' ? controlSection : eventSection
  const rule =
    name === 'control' ? [CONTROL_RULE, '### A recorded decision', json(examples['tenant.created'] ?? {})] : []
  return [...about, ...rule, ...events.map((event) => section(event, examples))].join('\n\n')
}

const overview = (): string =>
  table(
    ['Topic', 'Partitions', 'Kept', 'Holds'],
    TOPIC_NAMES.map((name) => [
      `[${TOPICS[name].name}](#${TOPICS[name].name.replaceAll('.', '')})`,
      partitionsOf(name),
      keptFor(name),
      contractsOf(name)
        .map(({ type }) => `\`${type}\``)
        .slice(0, 6)
        .join(', ') + (contractsOf(name).length > 6 ? ', ...' : ''),
    ]),
  )

const envelope = (): string =>
  table(
    ['Member', 'Meaning'],
    [
      ...Object.entries(ENVELOPE_FIELDS).map(([name, { description }]) => [`\`${name}\``, description ?? '']),
      ['`data`', 'The event: what the sections below show.'],
    ],
  )

/** The page as it is written to the file. */
export const topicsPage = (examples: RecordedExamples): string =>
  `${[
    '# The topics',
    'Made by `npm run gateway -- topics --docs` from the schemas that the code itself checks with; a test fails ' +
      'when it is not current. The same for tools: [asyncapi.json](asyncapi.json) (AsyncAPI 3), and the JSON ' +
      'Schemas that every gateway serves at `/schemas/`. Consumers that run, in Python and TypeScript, and one ' +
      'that fills DuckDB: [examples/consumers](../examples/consumers).',
    overview(),
    READING,
    '## The envelope',
    'Every record but those of the control topic is a JSON object in UTF-8: a CloudEvents 1.0 envelope in ' +
      'structured mode. There are no Kafka headers; the key of the record is `subject`. Records weigh at most 64 KiB.',
    envelope(),
    COMPATIBILITY,
    ...TOPIC_NAMES.map((name) => topicSection(name, examples)),
  ].join('\n\n')}\n`
