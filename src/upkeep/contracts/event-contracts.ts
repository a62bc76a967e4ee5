// Every event type that stands in a topic: what `docs/topics.md`, `docs/asyncapi.json` and `/schemas/` are made of.

import { LOGIN_EVENTS } from '../../domain/access/login.ts'
import { BUDGET_EVENTS } from '../../domain/budgets/budget-events.ts'
import { CONTROL_EVENTS } from '../../domain/control.ts'
import { AUDIT_EVENTS } from '../../domain/events/audit.ts'
import { FEEDBACK_EVENTS } from '../../domain/events/feedback.ts'
import { HEALTH_EVENTS } from '../../domain/events/health.ts'
import { REQUEST_EVENTS } from '../../domain/events/request.ts'
import { USAGE_EVENTS } from '../../domain/events/usage-closed.ts'
import type { TSchema } from '../../lib/schema/schema.ts'
import type { TopicName } from '../../log/topics.ts'
import { WrappedDataKey, WrappedInstallationKey } from '../../state/data-keys/wrapped-keys.ts'
import { InstanceAnnounced } from '../instances/instance-announced.ts'
import { EVENT_DESCRIPTIONS } from './event-descriptions.ts'

export interface EventContract {
  /** `<aggregate>.<past participle>`. */
  readonly type: string
  readonly topic: TopicName
  /** Schema of the event's data. */
  readonly schema: TSchema
  /** The event version in which it appeared: what `schema.activated` names. */
  readonly since: number
  /** Empty when it is missing: a test fails then. */
  readonly description: string
}

type Schemas = Readonly<Record<string, TSchema>>

/** The types of events in envelopes, by topic. A new event needs only a line of its own here. */
const ENVELOPED: Readonly<Partial<Record<TopicName, Schemas>>> = {
  requests: { ...REQUEST_EVENTS, ...FEEDBACK_EVENTS },
  operations: { ...HEALTH_EVENTS, ...LOGIN_EVENTS },
  usage: USAGE_EVENTS,
  budgets: BUDGET_EVENTS,
  audit: AUDIT_EVENTS,
  instances: { 'instance.announced': InstanceAnnounced },
  keys: { 'data-key.wrapped': WrappedDataKey, 'installation-key.wrapped': WrappedInstallationKey },
}

const contract = (type: string, topic: TopicName, schema: TSchema, since = 1): EventContract => ({
  type,
  topic,
  schema,
  since,
  description: EVENT_DESCRIPTIONS[type] ?? '',
})

/** In the order in which the documents show them. */
export const EVENT_CONTRACTS: readonly EventContract[] = [
  ...Object.entries(ENVELOPED).flatMap(([topic, events]) =>
    Object.entries(events).map(([type, schema]) => contract(type, topic as TopicName, schema)),
  ),
  ...Object.entries(CONTROL_EVENTS).map(([type, { schema, since }]) => contract(type, 'control', schema, since)),
]

export const contractsOf = (topic: TopicName): readonly EventContract[] =>
  EVENT_CONTRACTS.filter((each) => each.topic === topic)
