// B8: the broker is stopped in the middle of a burst. What is admitted meanwhile is covered by leases granted before.
// `bun tests/faults/budgets/outage.ts [--seconds 60]`
import { minus } from '../../../src/domain/budgets/amount.ts'
import { type Figure, numberArgument } from '../control/figures.ts'
import { readAccounts } from './accounts.ts'
import { COST_NANO_USD, type Rig, runRows, startLanes, tally, usdText } from './rig.ts'

const LANES = 4
const BURST_MS = 3_000

/** What all leases of a budget could be spent of, by what the log had taken until then. */
const outstanding = async (rig: Rig, budgetId: string, untilMs: number): Promise<number> => {
  let granted = 0
  for (const account of (await readAccounts(rig, budgetId, untilMs)).accounts)
    for (const each of account.holders.values()) granted += minus(each.granted, each.returned).nano_usd
  return granted
}

export const outage = async (rig: Rig, seconds: number): Promise<Figure[]> => {
  rig.upstream.share = 1
  const limitUsd = 1_000
  const id = await rig.budget(limitUsd)
  const before = rig.upstream.billed
  const load = startLanes(rig, LANES, 100)
  const { statuses } = load
  await Bun.sleep(BURST_MS)
  const broker = rig.kafka.broker(0)
  await broker.kill()
  const killedMs = Date.now()
  const seen = statuses.length
  await Bun.sleep(seconds * 1_000)
  await load.stop()
  const billed = (rig.upstream.billed - before) * COST_NANO_USD
  const during = statuses.slice(seen)
  await broker.restart()
  const granted = await outstanding(rig, id, killedMs)
  const afterwards = await rig.chat(rig.gateways[0]!)
  const beyond = usdText((billed - granted) / 1e9)
  return [
    {
      row: 'B8',
      what:
        `${rig.gateways.length} instances, the broker killed for ${seconds} s in a burst ` +
        `(${tally(during)} meanwhile; ${afterwards} afterwards)`,
      figure: `admitted beyond outstanding leases ${beyond}`,
      n: statuses.length,
      good: billed <= granted && during.includes(429) && !during.includes(500) && afterwards === 200,
    },
  ]
}

if (import.meta.main) await runRows((rig) => outage(rig, numberArgument('seconds', 60)))
