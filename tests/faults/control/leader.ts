// The leader of the control topic is killed, again and again, while two instances write. There are three brokers, and
// each record is on two before it is acknowledged.
// `bun tests/faults/control/leader.ts [--commands 20000]`: as in C2, nothing is lost, nothing is applied twice, and no
// writer gets a conflict with its own write.
import { sleep } from '../../../src/lib/event-loop/sleep.ts'
import { conclude, type Figure, numberArgument } from './figures.ts'
import { lostAcks } from './lost-acks.ts'
import { threeBrokerWorld } from './world.ts'

/** So long the killed broker is away, and then back, before the next one is killed: longer than an election takes. */
const AWAY_MS = 3_000
const BACK_MS = 4_000

export const leaderKills = async (commands: number): Promise<readonly Figure[]> => {
  const world = await threeBrokerWorld()
  const kills = async (signal: AbortSignal) => {
    let times = 0
    for (; !signal.aborted; times++) {
      await sleep(1_000, signal)
      const restart = await world.killLeader()
      await sleep(AWAY_MS, signal)
      await restart()
      await sleep(BACK_MS, signal)
    }
    return times
  }
  return lostAcks(world, commands, kills, 'the leader of three brokers killed (kill -9)')
}

if (import.meta.main) conclude(await leaderKills(numberArgument('commands', 20_000)))
