// Two builds spend from one hard budget. Instances are rolled from an earlier build to this one, one of them back and
// up again, with `kill -9` and in order. Meanwhile the limit is raised, the alerts are edited, and a provider bills
// more than was reserved. At each step the limit is spent to its end.
// `bun tests/faults/budgets/builds.ts [--instances 3] [--old <commit>]`. Needs the history of this repository.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { type Figure, numberArgument, textArgument } from '../control/figures.ts'
import { earlierBuild } from '../control/other-build.ts'
import { COST_NANO_USD, type Rig, runRows, startLanes, tally, usdText } from './rig.ts'

const THIS = join(import.meta.dir, '../../..')
/** The last commit before accounts carried the time of their limits, and recovery knew every tenant. */
const EARLIER = 'c189345'
/** Requests at once to each instance. */
const LANES = 4
/** By so much the limit is raised at each step. */
const RAISE_USD = 0.15
/** Nothing was admitted for so long: the limit is spent. */
const QUIET_MS = 4_000
const SPENT_WITHIN_MS = 90_000
/** A lease that no request draws from goes back after half a minute. */
const IDLE_MS = 60_000

interface Move {
  readonly gateway: number
  readonly to: 'this' | 'earlier'
  readonly by: 'SIGKILL' | 'SIGTERM'
}

/** Each of them to this build; the first one back in between. */
const movesOf = (instances: number): Move[] => [
  { gateway: 0, to: 'this', by: 'SIGKILL' },
  { gateway: 1, to: 'this', by: 'SIGTERM' },
  { gateway: 0, to: 'earlier', by: 'SIGTERM' },
  { gateway: 0, to: 'this', by: 'SIGKILL' },
  ...Array.from({ length: instances - 2 }, (_, n) => ({ gateway: n + 2, to: 'this', by: 'SIGKILL' }) as const),
]

export const builds = async (rig: Rig, old: string): Promise<Figure[]> => {
  rig.upstream.share = 0.5
  rig.upstream.delayMs = 40
  let limitUsd = RAISE_USD
  const id = await rig.budget(limitUsd)
  const { statuses, stop } = startLanes(rig, LANES, 100)
  const billedUsd = () => (rig.upstream.billed * COST_NANO_USD) / 1e9
  const overspent: number[] = []
  const spendAll = async () => {
    const untilMs = performance.now() + SPENT_WITHIN_MS
    for (let admitted = -1, sinceMs = 0; performance.now() < untilMs; await Bun.sleep(200)) {
      const now = statuses.filter((status) => status === 200).length
      if (now !== admitted) [admitted, sinceMs] = [now, performance.now()]
      else if (performance.now() - sinceMs > QUIET_MS) break
    }
    overspent.push(billedUsd() - limitUsd)
    console.error(`limit ${usdText(limitUsd)}, billed ${usdText(billedUsd())}`)
  }
  const put = async (gateway: number, more = {}) => {
    const body = { limit_usd: limitUsd, window: 'lifetime', ...more }
    const answer = await rig.gateways[gateway]!.request('/admin/v1/budgets', { method: 'PUT', body })
    if (!answer.ok) throw new Error(`the budget: ${answer.status} ${await answer.text()}`)
    await answer.arrayBuffer()
  }
  await spendAll()
  const moves = movesOf(rig.gateways.length)
  for (const [step, { gateway, to, by }] of moves.entries()) {
    limitUsd += RAISE_USD
    await put((gateway + 1) % rig.gateways.length)
    const moved = rig.gateways[gateway]!
    await moved.end(by)
    moved.use(to === 'this' ? THIS : old)
    moved.start()
    await moved.until('serving', 60_000)
    await spendAll()
    // The provider bills more than was reserved, which closes the account. Then one build edits its alerts, and the
    // other sets its limits.
    limitUsd += RAISE_USD
    await put(gateway)
    rig.upstream.share = 1.2
    await Bun.sleep(500)
    rig.upstream.share = 0.5
    await put((gateway + 1) % rig.gateways.length, { alert_thresholds: [0.5, 0.9 - step / 100] })
    await put(gateway, { alert_thresholds: [0.5, 0.9 - step / 100] })
    await spendAll()
  }
  await stop()
  let standing = await rig.standing(id)
  for (const untilMs = performance.now() + IDLE_MS; standing.reserved_usd > 0 && performance.now() < untilMs; ) {
    await Bun.sleep(500)
    standing = await rig.standing(id)
  }
  const { matches, difference_usd, outcomes } = await rig.verify(id)
  const most = Math.max(...overspent, standing.spent_usd - limitUsd)
  const what =
    `${rig.gateways.length} instances x ${LANES} lanes, ${moves.length} rolls between two builds, the limit raised ` +
    `and spent ${overspent.length} times (${tally(statuses)}; billed ${usdText(billedUsd())})`
  const figure =
    `overspent ${usdText(most)} of ${usdText(limitUsd)}, billed and not booked ` +
    `${usdText(billedUsd() - standing.spent_usd)}, left of the limit ${usdText(limitUsd - standing.spent_usd)}, ` +
    `reserved and not returned ${usdText(standing.reserved_usd)}, log and account differ by ` +
    `${usdText(Math.abs(difference_usd))}`
  const isBooked = billedUsd() <= standing.spent_usd + 1e-9 && matches && standing.reserved_usd === 0
  return [{ row: 'two builds', what, figure, n: outcomes, good: most <= 1e-9 && isBooked && outcomes > 0 }]
}

if (import.meta.main) {
  const instances = numberArgument('instances', 3)
  if (instances < 2) throw new Error('--instances: two at least, to be of two builds')
  const old = earlierBuild(textArgument('old', EARLIER))
  await runRows((rig) => builds(rig, old).finally(() => rmSync(old, { recursive: true, force: true })), { root: old })
}
