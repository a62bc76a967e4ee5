// The log of a run: a broker's topics under names of the run, or the embedded log of a folder. Producers and worker
// processes open it alike.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { embeddedLog } from '../../../src/log/embedded/log.ts'
import { kafkaLog } from '../../../src/log/kafka/log.ts'
import { ensureTopics } from '../../../src/log/kafka/topics.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { TOPICS, type Topic } from '../../../src/log/topics.ts'

/** The log of the run as it is passed to a worker process, as JSON. */
export type WorldLog =
  | { readonly adapter: 'embedded'; readonly dataDir: string }
  | { readonly adapter: 'kafka'; readonly brokers: readonly string[]; readonly prefix: string }

/** Topics of a shared broker, so that runs do not meet. */
const renamed = (prefix: string): readonly Topic[] =>
  Object.values(TOPICS).map((topic: Topic) => ({ ...topic, name: `${prefix}${topic.name}` }))

export const openWorldLog = (options: WorldLog): EventLog => {
  if (options.adapter === 'embedded') return embeddedLog({ dataDir: options.dataDir, nowMs: Date.now, spoolPollMs: 5 })
  const { brokers, prefix } = options
  const log = kafkaLog({ brokers, clientId: 'gatelog-exactly-once', compression: 'lz4', topics: renamed(prefix) })
  return {
    ...(log.limits === undefined ? {} : { limits: log.limits }),
    append: (topic, ...rest) => log.append(prefix + topic, ...rest),
    read: (topic, ...rest) => log.read(prefix + topic, ...rest),
    end: (topic, partition) => log.end(prefix + topic, partition),
    since: (topic, ...rest) => log.since(prefix + topic, ...rest),
    partitions: (topic) => log.partitions(prefix + topic),
    health: () => log.health(),
    close: () => log.close(),
  }
}

export interface World {
  readonly log: WorldLog
  remove(): void
}

export const embeddedWorld = (): World => {
  const dataDir = mkdtempSync(join(tmpdir(), 'gatelog-exactly-once-'))
  return { log: { adapter: 'embedded', dataDir }, remove: () => rmSync(dataDir, { recursive: true, force: true }) }
}

/** The topics stay on the broker: it is thrown away with its folder. */
export const kafkaWorld = async (brokers: readonly string[], partitions: number): Promise<World> => {
  const prefix = `once.${Bun.randomUUIDv7()}.`
  await ensureTopics({ brokers, clientId: 'once', partitions, retentionHours: 168, topics: renamed(prefix) })
  return { log: { adapter: 'kafka', brokers, prefix }, remove() {} }
}
