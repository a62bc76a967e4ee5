// Short runs of `worker-kill.ts`, whose own N is 100 kills and 200,000 outcomes.
import { expect, test } from 'bun:test'
import { sharedBroker } from '../../services/kafka.ts'
import { sharedPostgres } from '../../services/postgres.ts'
import { killRun } from '../exactly-once/run.ts'
import { embeddedWorld, kafkaWorld, type World } from '../exactly-once/world.ts'

const worlds: readonly (readonly [string, () => Promise<World>])[] = [
  ['the embedded log', async () => embeddedWorld()],
  ['a broker', async () => kafkaWorld((await sharedBroker()).bootstrap, 3)],
]

for (const [name, open] of worlds) {
  test(`exactly once over five kills of the worker, on ${name}`, async () => {
    const world = await open()
    const database = await sharedPostgres()
    try {
      const { missing, doubled, problems, closings } = await killRun({
        world,
        databaseUrl: database.url,
        kills: 5,
        outcomes: 5_000,
      })
      expect({ missing, doubled, problems }).toEqual({ missing: 0, doubled: 0, problems: [] })
      expect(closings.problems).toEqual([])
      expect(closings.sets).toBeGreaterThan(0)
    } finally {
      await database.remove()
      world.remove()
    }
  }, 300_000)
}
