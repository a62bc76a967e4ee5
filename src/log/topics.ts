// The topics: names, partitions, retention. docs/topics.md describes what each holds.
import { sha256 } from '../lib/crypto/digest.ts'

export interface Topic {
  readonly name: string
  /** `many`: the configured number of partitions on Kafka. */
  readonly partitions: 1 | 'many'
  readonly cleanup: 'delete' | 'compact'
  /** null: for ever. `configured`: `log.retention_hours`. */
  readonly retentionMs: number | null | 'configured'
  /** Control, keys and budgets are written by every instance and must never lose an acknowledged record. */
  readonly critical: boolean
  /** Embedded: one SQLite file shared by processes, or the segments of the one process that writes it. */
  readonly embedded: 'shared' | 'segments'
  /** False: shared and embedded, an append is acknowledged before it is on the disk, and a power cut may take it. */
  readonly synced?: false
}

const DAY_MS = 86_400_000

export const TOPICS = {
  control: {
    name: 'gateway.control.v1',
    partitions: 1,
    cleanup: 'delete',
    retentionMs: null,
    critical: true,
    embedded: 'shared',
  },
  keys: {
    name: 'gateway.keys.v1',
    partitions: 1,
    cleanup: 'compact',
    retentionMs: null,
    critical: true,
    embedded: 'shared',
  },
  budgets: {
    name: 'gateway.budgets.v1',
    partitions: 'many',
    cleanup: 'delete',
    retentionMs: 'configured',
    critical: true,
    embedded: 'shared',
  },
  requests: {
    name: 'gateway.requests.v1',
    partitions: 'many',
    cleanup: 'delete',
    retentionMs: 'configured',
    critical: false,
    embedded: 'segments',
  },
  operations: {
    name: 'gateway.operations.v1',
    partitions: 'many',
    cleanup: 'delete',
    retentionMs: 'configured',
    critical: false,
    embedded: 'segments',
  },
  instances: {
    name: 'gateway.instances.v1',
    partitions: 1,
    cleanup: 'delete',
    retentionMs: DAY_MS,
    critical: false,
    embedded: 'shared',
    // Announcements are published again after a power cut. The serving thread publishes each second, and would block
    // for 10 to 60 ms on a slow disk.
    synced: false,
  },
  usage: {
    name: 'gateway.usage.v1',
    partitions: 1,
    cleanup: 'delete',
    retentionMs: null,
    critical: false,
    embedded: 'shared',
  },
  audit: {
    name: 'gateway.audit.v1',
    partitions: 'many',
    cleanup: 'delete',
    retentionMs: 'configured',
    critical: false,
    embedded: 'shared',
  },
  cache: {
    name: 'gateway.cache.v1',
    partitions: 1,
    cleanup: 'delete',
    retentionMs: 'configured',
    critical: false,
    embedded: 'shared',
  },
} as const satisfies Record<string, Topic>

export type TopicName = keyof typeof TOPICS

/** The partition of a key: SHA-256 modulo the count that the chain records. Defined here, never by a client library. */
export const partitionOf = (key: string, count: number): number => {
  const digest = sha256(key)
  return new DataView(digest.buffer, digest.byteOffset).getUint32(0) % count
}
