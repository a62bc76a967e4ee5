// One process of a race: commits as fast as it can, says each answer on a line of its own, then where its fold ended.

import { decideTenant } from '../../../src/domain/access/tenant.ts'
import { Rejection } from '../../../src/domain/kernel/rejection.ts'
import { embeddedLog } from '../../../src/log/embedded/log.ts'
import { kafkaLog } from '../../../src/log/kafka/log.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { CONTROL } from '../../../src/state/fold.ts'
import { actor, nowMs, openInstance } from '../support.ts'

export type RaceLog =
  | { readonly adapter: 'embedded'; readonly dataDir: string }
  /**
   * `topic`: stands for the control topic, so that races do not share one. `keys`: stands for the topic of data keys,
   * where the test needs them.
   */
  | { readonly adapter: 'kafka'; readonly brokers: readonly string[]; readonly topic: string; readonly keys?: string }

export interface RaceTask {
  readonly log: RaceLog
  readonly name: string
  readonly commands: number
  /** Commands under way at once. */
  readonly atOnce: number
}

export type RaceLine =
  | { readonly mark: string; readonly outcome: 'changed'; readonly revision: string }
  | { readonly mark: string; readonly outcome: 'refused' | 'failed'; readonly why: string }
  | {
      readonly tip: string
      readonly digest: string
      readonly next: number
      readonly losses: number
      readonly turns: number
    }

export const openRaceLog = (options: RaceLog): EventLog => {
  if (options.adapter === 'embedded') return embeddedLog({ dataDir: options.dataDir, nowMs })
  const log = kafkaLog({ brokers: options.brokers, clientId: 'gatelog-race' })
  const { topic: control, keys = TOPICS.keys.name } = options
  const named = (topic: string) => (topic === CONTROL ? control : topic === TOPICS.keys.name ? keys : topic)
  return {
    append: (topic, ...rest) => log.append(named(topic), ...rest),
    read: (topic, ...rest) => log.read(named(topic), ...rest),
    end: (topic, partition) => log.end(named(topic), partition),
    since: (topic, ...rest) => log.since(named(topic), ...rest),
    partitions: (topic) => log.partitions(named(topic)),
    health: () => log.health(),
    close: () => log.close(),
  }
}

const say = (line: RaceLine): void => void process.stdout.write(`${JSON.stringify(line)}\n`)

const main = async ({ log: options, name, commands, atOnce }: RaceTask): Promise<void> => {
  const log = openRaceLog(options)
  const { live, queue, close } = await openInstance(name, log)
  await live.ready()
  let number = 0
  const work = async () => {
    while (number < commands) {
      const at = number++
      const mark = `${name}-${at}`
      // Every third command wants what the other processes want at the same time: one of them gets it.
      const slug = at % 3 === 0 ? `shared-${at}` : mark
      try {
        const { revision } = await queue.commit({
          actor: { ...actor, id: mark },
          decide: (state) =>
            decideTenant(state, { do: 'create', id: `ten_${mark}`, slug, name: mark, plan: null, managed_by: 'api' }),
        })
        say({ mark, outcome: 'changed', revision })
      } catch (error) {
        say({ mark, outcome: error instanceof Rejection ? 'refused' : 'failed', why: String(error) })
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  // The parent says where the log ended once all are done.
  for await (const line of console) {
    const end = Number(line)
    await live.condition.until(() => live.next >= end, 10_000)
    const { tip, digest, offset: next } = live.status()
    say({ tip, digest, next, losses: queue.status().losses, turns: queue.status().turns })
    break
  }
  await close()
  await log.close()
}

if (import.meta.main) {
  await main(JSON.parse(process.argv[2]!))
  process.exit(0)
}
