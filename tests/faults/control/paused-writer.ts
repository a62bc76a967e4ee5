// The writer of `paused.ts`: decides on what it sees, and then holds every append until a line comes on stdin.

import { decideTenant } from '../../../src/domain/access/tenant.ts'
import { Rejection } from '../../../src/domain/kernel/rejection.ts'
import { requireMatch } from '../../../src/http/admin/write.ts'
import { CONTROL } from '../../../src/state/fold.ts'
import { openRaceLog, type RaceLog } from '../../state/commit/race-writer.ts'
import { actor, openInstance } from '../../state/support.ts'

export interface PausedTask {
  readonly log: RaceLog
  /** Tenants that it renames, each as it stands when it starts. */
  readonly tenants: readonly string[]
}

const { log: options, tenants } = JSON.parse(process.argv[2]!) as PausedTask
const log = openRaceLog(options)
const say = (word: string): void => void process.stdout.write(`${word}\n`)
const told = Promise.withResolvers<void>()
void (async () => {
  for await (const _ of console) break
  told.resolve()
})()
const held: typeof log = {
  ...log,
  async append(topic, ...rest) {
    if (topic === CONTROL) {
      say('decided')
      await told.promise
    }
    return log.append(topic, ...rest)
  },
}
const { live, queue } = await openInstance('paused', held)
await live.ready()
const outcomes = await Promise.all(
  tenants.map(async (id) => {
    const { revision } = live.control.table('tenants').get(id)!
    try {
      await queue.commit({
        actor,
        decide(state) {
          const events = decideTenant(state, { do: 'replace', id, name: 'stale', plan: null, managed_by: 'api' })
          requireMatch([revision], state.table('tenants').get(id))
          return events
        },
      })
      return 'changed'
    } catch (error) {
      return error instanceof Rejection ? 'refused' : 'failed'
    }
  }),
)
say(JSON.stringify(outcomes))
process.exit(0)
