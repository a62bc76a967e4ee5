// `docs/asyncapi.json`: the topics as an AsyncAPI 3 document, for tools. `docs/topics.md` is the same for people.
import { TOPICS, type TopicName } from '../../log/topics.ts'
import { contractsOf, EVENT_CONTRACTS, type EventContract } from './event-contracts.ts'
import { ControlDecision, type JsonSchema, messageSchema, namedSchema, plainSchema } from './message-schemas.ts'
import { keptFor, TOPIC_CONTRACTS, TOPIC_NAMES } from './topic-contracts.ts'

/** A recorded line of each type: the record as it stood in the log. */
export type RecordedExamples = Readonly<Record<string, JsonSchema>>

const ABOUT =
  'What Gatelog writes to Kafka. Every record but those of the control topic is a CloudEvents 1.0 JSON envelope, ' +
  'delivered at least once and in order ' +
  'within its key. docs/topics.md says how to read them right.'

const BINDING = '0.5.0'
const ref = (...path: string[]): JsonSchema => ({ $ref: `#/${path.join('/')}` })
const sendName = (topic: TopicName): string => `send${topic[0]!.toUpperCase()}${topic.slice(1)}`

const channel = (name: TopicName): JsonSchema => {
  const { name: address, cleanup, retentionMs, partitions } = TOPICS[name]
  const { summary, key, repeats, readers } = TOPIC_CONTRACTS[name]
  const types = name === 'control' ? ['decision'] : contractsOf(name).map(({ type }) => type)
  const retention = retentionMs === 'configured' ? {} : { 'retention.ms': retentionMs ?? -1 }
  return {
    address,
    title: address,
    summary,
    description:
      `Keyed by ${key}. Repeats are dropped by ${repeats}. Kept: ${keptFor(name)}. ` +
      `Readers: ${readers === 'anybody' ? 'anybody whom the brokers let' : 'gateways alone'}.`,
    messages: Object.fromEntries(types.map((type) => [type, ref('components', 'messages', type)])),
    bindings: {
      kafka: {
        topic: address,
        ...(partitions === 1 ? { partitions } : {}),
        topicConfiguration: { 'cleanup.policy': [cleanup], ...(cleanup === 'compact' ? {} : retention) },
        bindingVersion: BINDING,
      },
    },
  }
}

const envelopedMessage = (contract: EventContract, examples: RecordedExamples): JsonSchema => ({
  name: contract.type,
  title: contract.type,
  summary: contract.description,
  contentType: 'application/cloudevents+json',
  payload: ref('components', 'schemas', contract.type),
  bindings: {
    kafka: {
      key: { type: 'string', description: `The envelope’s subject: ${TOPIC_CONTRACTS[contract.topic].key}.` },
      bindingVersion: BINDING,
    },
  },
  examples: [{ name: 'recorded', payload: examples[contract.type] ?? {} }],
})

/** One message: a decision holds events of any of the types. Each has its schema and its example. */
const decisionMessage = (examples: RecordedExamples): JsonSchema => ({
  name: 'decision',
  title: 'decision',
  summary: 'One decision: one or more events that happen together, or do not count.',
  contentType: 'application/json',
  payload: ref('components', 'schemas', 'decision'),
  examples: contractsOf('control').map(({ type }) => ({ name: type, payload: examples[type] ?? {} })),
})

const decisionSchema = (): JsonSchema => {
  const decision = plainSchema(ControlDecision) as { properties: { events: JsonSchema } }
  const oneOf = contractsOf('control').map(({ type, description }) => ({
    type: 'object',
    required: ['type', 'data'],
    description,
    properties: { type: { const: type }, data: ref('components', 'schemas', type) },
  }))
  const events = { ...decision.properties.events, items: { oneOf } }
  return { ...decision, properties: { ...decision.properties, events } }
}

/** The document as it is written to the file: two spaces, a line feed at the end. */
export const asyncApiText = (examples: RecordedExamples): string => {
  const enveloped = EVENT_CONTRACTS.filter(({ topic }) => topic !== 'control')
  const document = {
    asyncapi: '3.0.0',
    info: { title: 'Gatelog topics', version: '1', description: ABOUT, license: { name: 'Apache-2.0' } },
    defaultContentType: 'application/json',
    channels: Object.fromEntries(TOPIC_NAMES.map((name) => [name, channel(name)])),
    operations: Object.fromEntries(
      TOPIC_NAMES.map((name) => [sendName(name), { action: 'send', channel: ref('channels', name) }]),
    ),
    components: {
      messages: {
        ...Object.fromEntries(enveloped.map((each) => [each.type, envelopedMessage(each, examples)])),
        decision: decisionMessage(examples),
      },
      schemas: {
        ...Object.fromEntries(enveloped.map((each) => [each.type, namedSchema(messageSchema(each))])),
        decision: namedSchema(decisionSchema()),
        ...Object.fromEntries(
          contractsOf('control').map(({ type, description, schema }) => [
            type,
            namedSchema({ description, ...plainSchema(schema) }),
          ]),
        ),
      },
    },
  }
  return `${JSON.stringify(document, null, 2)}\n`
}
