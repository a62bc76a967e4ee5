// The JSON Schemas of whole records: the envelope with its data, and a decision of the control topic. In the draft of
// 2020-12, as they state.
import { DECISION_LIMITS } from '../../domain/kernel/decision.ts'
import { type TSchema, t } from '../../lib/schema/schema.ts'
import { EVENT_CONTRACTS, type EventContract } from './event-contracts.ts'

const DRAFT = 'https://json-schema.org/draft/2020-12/schema'

/** Members of every envelope: CloudEvents 1.0, structured mode, and three extensions for the origin of the record. */
export const ENVELOPE_FIELDS = {
  specversion: t.Literal('1.0', { description: 'CloudEvents 1.0, structured mode.' }),
  id: t.String({
    description:
      'Of this record: `<instance>.<epoch>.<sequence>`; of an audit event the decision’s id. A record that is ' +
      'sent again keeps it.',
  }),
  source: t.String({ description: '`/gatelog/<instance>`.' }),
  type: t.String({ description: 'Type of the event. Skip the types that you do not know.' }),
  subject: t.String({ description: 'What the event is about: also the key of the record.' }),
  time: t.String({ description: 'The writer’s clock, RFC 3339 UTC.' }),
  datacontenttype: t.Literal('application/json', { description: '`data` is JSON, not text that holds JSON.' }),
  dataschema: t.String({ description: 'Path of the schema of `data` on any gateway: `/schemas/<type>.json`.' }),
  instance: t.String({ description: 'Extension: the process’s name, kept over restarts.' }),
  epoch: t.String({ description: 'Extension: random, minted at each start of the process.' }),
  sequence: t.Integer({
    minimum: 0,
    description: 'Extension: grows within (instance, epoch, topic).',
  }),
} as const

export const EventEnvelope = t.Object({ ...ENVELOPE_FIELDS, data: t.Unknown({ description: 'The event.' }) })

const hash = (description: string) => t.String({ pattern: '^[0-9a-f]{64}$', description })

/** A record of the control topic: members in this order, `mac` last. */
export const ControlDecision = t.Object({
  parent: hash('Id of the decision on which this one was decided; 64 zeros for the first.'),
  at: t.String({ description: 'The writer’s clock, RFC 3339 UTC with milliseconds.' }),
  actor: t.Object(
    { type: t.String({ description: '`key`, `operator` or `system`.' }), id: t.String() },
    { description: 'Who decided, by id only.' },
  ),
  by: t.Optional(t.String({ description: 'The instance that wrote it.' })),
  cause: t.Union([t.Object({ id: t.String(), body: t.String() }), t.Null()], {
    description: 'Digests of who asked for it with which `Idempotency-Key`, and of the body.',
  }),
  v: t.Literal(1, { description: 'Version of the format.' }),
  events: t.Array(t.Object({ type: t.String(), data: t.Record(t.String(), t.Unknown()) }), {
    minItems: 1,
    maxItems: DECISION_LIMITS.events,
    description: 'What it changes: all of it, or nothing.',
  }),
  mac: hash('HMAC-SHA-256 of all bytes before `,"mac"`, under a key that derives from the master key.'),
})

export type JsonSchema = Readonly<Record<string, unknown>>

/**
 * Without the members that only TypeBox uses. TypeBox writes a tuple as draft-07 has it; its bounds on the number of
 * items stay, so that `prefixItems` allows no more of them.
 */
export const plainSchema = (schema: TSchema): JsonSchema =>
  JSON.parse(JSON.stringify(schema), (_, value: unknown) => (isTuple(value) ? newerTuple(value) : value)) as JsonSchema

const isTuple = (value: unknown): value is JsonSchema =>
  value !== null && typeof value === 'object' && 'items' in value && Array.isArray(value.items)

const newerTuple = ({ items, additionalItems: _, ...rest }: JsonSchema): JsonSchema => ({ ...rest, prefixItems: items })

/** A schema that stands alone, with the draft that it is written in. */
export const namedSchema = (schema: JsonSchema): JsonSchema => ({ $schema: DRAFT, ...schema })

/** Name of the file below `/schemas/` -> the document, for every event type, the envelope and the decision. */
export const schemaDocuments = (): ReadonlyMap<string, JsonSchema> => {
  const document = (name: string, description: string, schema: TSchema): [string, JsonSchema] => [
    `${name}.json`,
    namedSchema({ $id: `/schemas/${name}.json`, title: name, description, ...plainSchema(schema) }),
  ]
  return new Map([
    ...EVENT_CONTRACTS.map(({ type, description, schema }) => document(type, description, schema)),
    document('envelope', 'What every record of every topic but control travels in.', EventEnvelope),
    document('decision', 'A record of the control topic.', ControlDecision),
  ])
}

/** The whole record of an event that travels in an envelope. */
export const messageSchema = ({ type, schema }: EventContract): JsonSchema =>
  plainSchema(t.Object({ ...ENVELOPE_FIELDS, type: t.Literal(type), data: schema }))
