// B2: B1 under load, with `kill -9` of a random instance every two seconds.
// `bun tests/faults/budgets/kills.ts [--instances 3] [--kills 10]`
import { type Figure, numberArgument } from '../control/figures.ts'
import { uncharged } from './charged.ts'
import { COST_NANO_USD, type Rig, runRows, type Standing, startLanes, tally, usdText } from './rig.ts'

const EVERY_MS = 2_000
/** Requests at once to each instance. */
const LANES = 8
/** A lease that no request draws from goes back after half a minute. */
const IDLE_MS = 60_000

export const kills = async (rig: Rig, times: number): Promise<Figure[]> => {
  rig.upstream.share = 0.5
  rig.upstream.delayMs = 40
  const limitUsd = 2
  const id = await rig.budget(limitUsd)
  const before = rig.upstream.billed
  const load = startLanes(rig, LANES, 50)
  const { statuses } = load
  for (let done = 0; done < times; done++) {
    await Bun.sleep(EVERY_MS)
    const gateway = rig.gateways[Math.floor(Math.random() * rig.gateways.length)]!
    await gateway.end('SIGKILL')
    gateway.start()
    await gateway.until('serving', 60_000)
  }
  await load.stop()
  const billedUsd = ((rig.upstream.billed - before) * COST_NANO_USD) / 1e9
  const untilMs = performance.now() + IDLE_MS
  let standing: Standing = await rig.standing(id)
  while (standing.reserved_usd > 0 && performance.now() < untilMs) {
    await Bun.sleep(500)
    standing = await rig.standing(id)
  }
  const { matches, difference_usd, outcomes } = await rig.verify(id)
  const missing = await uncharged(rig)
  for (const each of missing.slice(0, 3)) console.error(JSON.stringify(each))
  const what =
    `${rig.gateways.length} instances x ${LANES} lanes, ${times} x kill -9 ` +
    `(${tally(statuses)}; billed ${usdText(billedUsd)} of ${usdText(limitUsd)})`
  return [
    {
      row: 'B2',
      what,
      figure:
        `overshoot ${usdText(Math.max(billedUsd, standing.spent_usd) - limitUsd)}, reserved and not returned ` +
        `${usdText(standing.reserved_usd)}, billed and not booked ${usdText(billedUsd - standing.spent_usd)}, billed ` +
        `and not charged ${missing.length} requests, log and account differ by ${usdText(Math.abs(difference_usd))}`,
      n: outcomes,
      good:
        standing.spent_usd <= limitUsd &&
        billedUsd <= standing.spent_usd + 1e-9 &&
        standing.reserved_usd === 0 &&
        matches &&
        missing.length === 0 &&
        outcomes > 0,
    },
  ]
}

if (import.meta.main) await runRows((rig) => kills(rig, numberArgument('kills', 10)))
