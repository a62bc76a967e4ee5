// Rules for every topic: the settings that it is created with, and which stored ones are wrong and how to fix them.
// Pure.

import { TOPICS, type Topic } from '../topics.ts'
import type { TopicToCreate } from './connection.ts'
import type { TopicMetadata } from './wire.ts'

/** Inputs of the rules besides the topic. */
export interface TopicNeeds {
  /** Partitions of a new topic of those that have many. */
  readonly partitions: number
  readonly retentionHours: number
  /** Topic name -> number of partitions that the chain records, where there is a chain: no topic may have fewer. */
  readonly recorded?: Readonly<Record<string, number>>
}

const REPLICATION = 3
const MIN_IN_SYNC = 2
/** An append of 448 KiB, with room for what surrounds it. */
export const MIN_MESSAGE_BYTES = 524_288
/**
 * `producer` keeps batches as they are sent. With the others a broker may have to repack each batch, but every reader
 * here and most others can read them.
 */
const OUR_COMPRESSION = ['producer', 'lz4', 'uncompressed', 'gzip']
const HOUR_MS = 3_600_000
const COMPACTED_MS = String(HOUR_MS)

/** The settings of a new topic on so many brokers. */
export const wantedTopic = (topic: Topic, options: TopicNeeds, brokers: number): TopicToCreate => {
  const replication = Math.max(1, Math.min(REPLICATION, brokers))
  return {
    name: topic.name,
    partitions: topic.partitions === 1 ? 1 : (options.recorded?.[topic.name] ?? options.partitions),
    replication,
    settings: {
      'message.timestamp.type': 'LogAppendTime',
      'cleanup.policy': topic.cleanup,
      'retention.ms': String(retentionOf(topic, options.retentionHours)),
      'retention.bytes': '-1',
      'compression.type': 'producer',
      'max.message.bytes': '1048588',
      // Required of the critical topics only, but set on all: an acknowledged outcome is deleted from its spool.
      'min.insync.replicas': String(Math.min(MIN_IN_SYNC, replication)),
      'unclean.leader.election.enable': 'false',
      // What was erased or wrapped again must leave the brokers' disks: by default an old segment may wait for ever.
      ...(topic.cleanup === 'compact' ? { 'segment.ms': COMPACTED_MS, 'max.compaction.lag.ms': COMPACTED_MS } : {}),
    },
  }
}

const retentionOf = ({ retentionMs }: Topic, hours: number): number =>
  retentionMs === 'configured' ? hours * HOUR_MS : (retentionMs ?? -1)

/** A topic as the brokers describe it; `brokers`: how many there are now. */
export interface StoredTopic {
  readonly metadata: TopicMetadata
  readonly settings: ReadonlyMap<string, string>
  readonly brokers: number
}

export interface SettingProblem {
  /** A topic setting, or `partitions` or `replication.factor`. */
  readonly setting: string
  readonly found: string
  readonly wanted: string
  /** The value that fixes it; null: no setting can change it. */
  readonly fix: string | null
}

export const rowOf = ({ metadata, settings }: StoredTopic) => ({
  partitions: metadata.partitions.length,
  replication: Math.min(...metadata.partitions.map(({ replicas }) => replicas.length)),
  minInSync: Number(settings.get('min.insync.replicas') ?? 1),
  cleanup: settings.get('cleanup.policy') ?? '',
  retentionMs: Number(settings.get('retention.ms') ?? 0),
})

/** The first problem of a topic. Looser settings that lose nothing (longer retention, more replicas) are accepted. */
export const problemOf = (
  topic: Topic,
  stored: StoredTopic,
  options: Pick<TopicNeeds, 'retentionHours' | 'recorded'>,
): SettingProblem | null => {
  const row = rowOf(stored)
  const get = (name: string) => stored.settings.get(name) ?? 'unset'
  const wrong = (setting: string, wantedText: string, fix: string | null, found = get(setting)): SettingProblem => ({
    setting,
    found,
    wanted: wantedText,
    fix,
  })
  const count = topic.partitions === 1 ? 1 : (options.recorded?.[topic.name] ?? 1)
  if (row.partitions < count || (topic.partitions === 1 && row.partitions > 1)) {
    return wrong('partitions', String(count), null, String(row.partitions))
  }
  if (get('message.timestamp.type') !== 'LogAppendTime') {
    return wrong('message.timestamp.type', 'LogAppendTime', 'LogAppendTime')
  }
  if (get('cleanup.policy') !== topic.cleanup) return wrong('cleanup.policy', topic.cleanup, topic.cleanup)
  const retentionMs = retentionOf(topic, options.retentionHours)
  if (topic.cleanup === 'delete' && row.retentionMs !== -1 && (retentionMs === -1 || row.retentionMs < retentionMs)) {
    return wrong('retention.ms', retentionMs === -1 ? '-1 (for ever)' : `at least ${retentionMs}`, String(retentionMs))
  }
  if (topic.cleanup === 'delete' && get('retention.bytes') !== '-1') return wrong('retention.bytes', '-1', '-1')
  if (!OUR_COMPRESSION.includes(get('compression.type'))) {
    return wrong('compression.type', OUR_COMPRESSION.join(' or '), 'producer')
  }
  if (Number(get('max.message.bytes')) < MIN_MESSAGE_BYTES) {
    return wrong('max.message.bytes', `at least ${MIN_MESSAGE_BYTES}`, '1048588')
  }
  return topic.critical ? unsafe(stored, wrong) : null
}

const unsafe = (
  stored: StoredTopic,
  wrong: (setting: string, wanted: string, fix: string | null, found?: string) => SettingProblem,
): SettingProblem | null => {
  const { replication, minInSync } = rowOf(stored)
  const possible = Math.max(1, Math.min(REPLICATION, stored.brokers))
  if (replication < possible) return wrong('replication.factor', `at least ${possible}`, null, String(replication))
  const needed = Math.min(MIN_IN_SYNC, replication)
  if (minInSync < needed || minInSync > replication) {
    return wrong('min.insync.replicas', String(needed), String(needed), String(minInSync))
  }
  const unclean = stored.settings.get('unclean.leader.election.enable')
  return unclean === 'false' ? null : wrong('unclean.leader.election.enable', 'false', 'false')
}

/** Weaknesses that these brokers cannot avoid. */
export const warningsOf = (stored: readonly { readonly topic: Topic; readonly replication: number }[]): string[] => {
  const thin = stored.filter(({ topic, replication }) => topic.critical && replication < REPLICATION)
  if (thin.length === 0) return []
  const names = thin.map(({ topic, replication }) => `${topic.name} (${replication})`).join(', ')
  return [
    `fewer than ${REPLICATION} copies of ${names}: losing a broker can lose acknowledged records ` +
      `or stop writing; run ${REPLICATION} brokers`,
  ]
}

/** One line: the topic, the setting, the remedy. */
export const explain = (
  topic: string,
  { setting, found, wanted: need, fix }: SettingProblem,
  bootstrap: string,
): string => {
  const what = `${topic} has ${setting} ${found}, wanted is ${need}`
  if (fix !== null) {
    const tool = `kafka-configs.sh --bootstrap-server ${bootstrap} --alter --entity-type topics --entity-name ${topic}`
    return `${what}: run \`${tool} --add-config ${setting}=${fix}\``
  }
  if (setting === 'replication.factor') return `${what}: add replicas with kafka-reassign-partitions.sh`
  const reason = 'a topic with another number of partitions is another log'
  return `${what}: ${reason}; restore the right one, or start over with a new topic`
}

/** The commands that grant gateways what they need, and consumers read access. The operator fills in `<...>`. */
export const aclCommands = (bootstrap: string): string[] => {
  const tool = `kafka-acls.sh --bootstrap-server ${bootstrap} --add`
  const gateway = `${tool} --allow-principal User:<gateway>`
  const analyst = `${tool} --allow-principal User:<analyst>`
  const open = [TOPICS.requests, TOPICS.operations, TOPICS.usage, TOPICS.audit].map(({ name }) => `--topic ${name}`)
  const all = '--topic gateway. --resource-pattern-type prefixed'
  return [
    `${gateway} --operation Read --operation Write --operation Describe --operation DescribeConfigs ${all}`,
    `${gateway} --operation Create ${all}   # for \`gateway topics --init\` only`,
    `${analyst} --operation Read --operation Describe ${open.join(' ')}`,
    `${analyst} --operation Read --group <group>   # the consumer group, which stock consumers need`,
  ]
}
