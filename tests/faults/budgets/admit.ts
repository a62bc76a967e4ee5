// B1: many instances get more requests at once than a hard budget admits.
// `bun tests/faults/budgets/admit.ts [--instances 3] [--requests 200]`
import { type Figure, numberArgument } from '../control/figures.ts'
import { COST_NANO_USD, type Rig, runRows, tally, usdText } from './rig.ts'

const ADMITS = 37

export const admit = async (rig: Rig, each: number): Promise<Figure[]> => {
  const limitUsd = (ADMITS * COST_NANO_USD) / 1e9
  const id = await rig.budget(limitUsd)
  const before = rig.upstream.billed
  const statuses = await Promise.all(
    rig.gateways.flatMap((gateway) => Array.from({ length: each }, () => rig.chat(gateway))),
  )
  const admitted = statuses.filter((status) => status === 200).length
  const refused = statuses.filter((status) => status === 402).length
  const billedUsd = ((rig.upstream.billed - before) * COST_NANO_USD) / 1e9
  const { matches, difference_usd } = await rig.verify(id)
  const overshoot = usdText(billedUsd - limitUsd)
  return [
    {
      row: 'B1',
      what:
        `${rig.gateways.length} instances x ${each} requests at once, a cap ` +
        `that admits ${ADMITS} (${tally(statuses)})`,
      figure: `admitted ${admitted}, overshoot ${overshoot}, log and account differ by ${usdText(Math.abs(difference_usd))}`,
      n: statuses.length,
      good: admitted === ADMITS && refused === statuses.length - ADMITS && billedUsd <= limitUsd && matches,
    },
  ]
}

if (import.meta.main) await runRows((rig) => admit(rig, numberArgument('requests', 200)))
