// What each topic promises, as text. Names, partitions and retention are those of `log/topics.ts`.
import { TOPICS, type TopicName } from '../../log/topics.ts'

export interface TopicContract {
  readonly summary: string
  /** What the records are keyed by: records of one key stay in order. */
  readonly key: string
  /** What a reader drops repeats by. */
  readonly repeats: string
  /** The readers for which the contract is made. */
  readonly readers: 'anybody' | 'gateways'
}

const BY_ORIGIN =
  '`id`; or, with less to remember, the highest `sequence` of each (partition, `instance`, `epoch`): what is not ' +
  'above it is a repeat'

export const TOPIC_CONTRACTS: Readonly<Record<TopicName, TopicContract>> = {
  requests: {
    summary: 'The life of every request: admitted, attempted, settled. And feedback.',
    key: 'tenant and instance, `<tenant id>/<instance>`: all records of one request stand in one partition, in order',
    repeats:
      `${BY_ORIGIN}. Of several settlements of one request (\`data.id\`) the first in the partition is ` +
      `the outcome`,
    readers: 'anybody',
  },
  operations: {
    summary: 'What happens around requests: circuit breakers, probes, frames of volatile inputs, failed logins.',
    key: 'what the event is about: the model of a breaker, the provider of a probe, the instance of a frame',
    repeats: BY_ORIGIN,
    readers: 'anybody',
  },
  audit: {
    summary: 'Every decision that counted, with the rows before and after, secrets masked.',
    key: 'tenant, or `global`',
    repeats:
      '`id`, which is the decision’s. Each partition is in the order of `log_offset`, repeats apart: after a ' +
      'crash of the worker some come again',
    readers: 'anybody',
  },
  usage: {
    summary: 'Totals of closed days.',
    key: 'day',
    repeats:
      '`id`. Of each day the complete set of parts with the highest `sequence` holds, and of two with the same ' +
      'one that of the farther `offsets`: it takes the place of those before',
    readers: 'anybody',
  },
  budgets: {
    summary: 'Budgets: an account for each window, what is granted, spent and given back of it, and alerts.',
    key: 'tenant: one record asks for all accounts of a request, and all of them are a tenant’s',
    repeats:
      'what it says: sums only grow, requests are numbered by their holder, of accounts and heights the first ' +
      'copy counts',
    readers: 'anybody',
  },
  cache: {
    summary: 'Flushes of the cache, from instance to instance.',
    key: 'tenant',
    repeats: '`id`',
    readers: 'gateways',
  },
  instances: {
    summary: 'Which instances live, how far each has read the control topic, and what its state is.',
    key: 'instance',
    repeats: 'nothing: the latest of each instance holds',
    readers: 'gateways',
  },
  keys: {
    summary: 'Data keys, each wrapped by the master key.',
    key: 'data key',
    repeats: 'nothing: the latest of each key holds; a record without a value deletes the key',
    readers: 'gateways',
  },
  control: {
    summary: 'The chain of decisions: every change of configuration, and the only source of the gateways’ state.',
    key: 'none',
    repeats: 'the counting rule: a repeat’s parent is no longer the tip, so it does not count',
    readers: 'gateways',
  },
}

/** Those that hold events today first, those that others may read before the gateways' own. */
export const TOPIC_NAMES = Object.keys(TOPIC_CONTRACTS) as readonly TopicName[]

/** How long it is kept, as text. */
export const keptFor = (name: TopicName): string => {
  const { retentionMs, cleanup } = TOPICS[name]
  if (cleanup === 'compact') return 'the last record of each key, for ever'
  if (retentionMs === null) return 'for ever'
  return retentionMs === 'configured' ? '`log.retention_hours` (default 168)' : `${retentionMs / 3_600_000} hours`
}

export const partitionsOf = (name: TopicName): string =>
  TOPICS[name].partitions === 1 ? '1' : '`log.kafka.partitions` (default 6), fixed when they are made'
