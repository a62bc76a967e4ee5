// The log of one machine, without a broker: shared topics are SQLite files, `requests` and `operations` are the
// segments of the spools.
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { appendProblem } from '../append-limits.ts'
import { type Files, nodeFiles } from '../files.ts'
import { type EventLog, LogUnavailable, RecordRefused } from '../port.ts'
import type { SpoolTopic } from '../segments/segments.ts'
import { spoolDirectory, spoolNumbers } from '../spool/spool.ts'
import { TOPICS, type Topic } from '../topics.ts'
import { readSpool, spoolEnds } from './spool-partitions.ts'
import { holdsRecords } from './sqlite-file.ts'
import { SqliteTopic } from './sqlite-log.ts'

export interface EmbeddedLogOptions {
  readonly dataDir: string
  readonly nowMs: () => number
  /**
   * The value of `retentionMs: 'configured'` for shared topics (spools have theirs in `SpoolKeeping`); null keeps all.
   */
  readonly retentionMs?: number | null
  /** Partitions of shared topics that have many; 1 when not given. */
  readonly partitionCount?: number
  readonly random?: () => number
  /** Poll interval of a reader at the end of a spool; 20 ms when not given. */
  readonly spoolPollMs?: number
  readonly files?: Files
  /** `TOPICS` when not given. */
  readonly findTopic?: (name: string) => Topic | undefined
}

export interface EmbeddedLog extends EventLog {
  /** Bytes that spool readers could not read, since the start. */
  damagedBytes(): number
}

const topicsByName = new Map<string, Topic>(Object.values(TOPICS).map((topic) => [topic.name, topic]))

const SUFFIX = '.sqlite'
const folderOf = (dataDir: string): string => join(dataDir, 'log')

/**
 * Whether a data folder holds a record. Creates nothing. Files without a record, which a read-only command may have
 * left, are no log.
 */
export const holdsLog = (dataDir: string): boolean => {
  const folder = folderOf(dataDir)
  if (!existsSync(folder)) return false
  return readdirSync(folder).some((name) => name.endsWith(SUFFIX) && holdsRecords(join(folder, name)))
}

/** Makes files under `<dataDir>/log` as topics are used. Throws LogUnavailable when one cannot be opened. */
export const embeddedLog = (options: EmbeddedLogOptions): EmbeddedLog => {
  const { dataDir, nowMs, retentionMs = null, partitionCount = 1, random = Math.random, spoolPollMs = 20 } = options
  const { files = nodeFiles } = options
  const findTopic = options.findTopic ?? ((name: string) => topicsByName.get(name))
  const shared = new Map<string, SqliteTopic>()
  const unopened = new Map<string, string>()
  const ends = spoolEnds()
  const closed = new AbortController()
  let damaged = 0
  const topicOf = (name: string): Topic => {
    const topic = findTopic(name)
    if (topic === undefined) throw new RecordRefused(`there is no topic ${name}`)
    return topic
  }
  const file = (name: string): SqliteTopic => {
    if (closed.signal.aborted) throw new LogUnavailable('the log is closed')
    const opened = shared.get(name)
    if (opened !== undefined) return opened
    const topic = topicOf(name)
    const kept = topic.retentionMs === 'configured' ? retentionMs : topic.retentionMs
    const path = join(folderOf(dataDir), `${name}${SUFFIX}`)
    const compacted = topic.cleanup === 'compact'
    const how = { compacted, synced: topic.synced ?? true, retentionMs: kept }
    const made = noted(unopened, name, () => new SqliteTopic({ path, ...how, files, nowMs, random }))
    shared.set(name, made)
    return made
  }
  return {
    async append(name, partition, records, signal) {
      const problem = appendProblem(records)
      if (problem !== null) throw new RecordRefused(problem)
      if (topicOf(name).embedded === 'segments') throw new RecordRefused(`${name} is written through the spool`)
      signal?.throwIfAborted()
      await file(name).append(partition, records, signal)
    },
    read(name, partition, from, signal, how) {
      const either = AbortSignal.any([signal, closed.signal])
      if (topicOf(name).embedded === 'shared') return file(name).read(partition, from, either)
      const [directory, topic] = [spoolDirectory(dataDir, partition), spoolTopicOf(name)]
      const onDamage = (bytes: number) => {
        damaged += bytes
      }
      const asked = { passing: how?.passing === true, only: how?.only ?? null }
      const reader = { directory, topic, pollMs: spoolPollMs, ...asked, files, onDamage }
      return readSpool(reader, from, either)
    },
    async end(name, partition) {
      if (topicOf(name).embedded === 'shared') return file(name).end(partition)
      return ends.end(spoolDirectory(dataDir, partition), spoolTopicOf(name))
    },
    since: async (name, partition, atMs) =>
      topicOf(name).embedded === 'shared' ? file(name).since(partition, atMs) : 0,
    async partitions(name) {
      const topic = topicOf(name)
      if (topic.embedded === 'segments') return spoolNumbers(dataDir)
      return Array.from({ length: topic.partitions === 1 ? 1 : partitionCount }, (_, index) => index)
    },
    health() {
      const problem = [...unopened.values(), ...[...shared.values()].map((topic) => topic.problem)].find(Boolean)
      return problem == null ? { ok: true, detail: 'embedded' } : { ok: false, detail: problem }
    },
    damagedBytes: () => damaged,
    async close() {
      closed.abort()
      for (const topic of shared.values()) topic.close()
      ends.close()
    },
  }
}

/** Stores the reason why something cannot be opened, until it can. */
const noted = <Opened>(problems: Map<string, string>, name: string, open: () => Opened): Opened => {
  try {
    const opened = open()
    problems.delete(name)
    return opened
  } catch (error) {
    problems.set(name, error instanceof Error ? error.message : String(error))
    throw error
  }
}

const spoolTopicOf = (name: string): SpoolTopic => (name === TOPICS.operations.name ? 'operations' : 'requests')
