// B6: the records that instances write about budgets are repeated, reordered or lost. A proxy drops the broker's
// answers and cuts connections, again and again, and the connections of several instances are delayed.
// `bun tests/faults/budgets/lost-tells.ts [--instances 3] [--seconds 60]`
import { spentOf } from '../../../src/domain/budgets/account.ts'
import { type Figure, numberArgument } from '../control/figures.ts'
import { readAccounts } from './accounts.ts'
import { COST_NANO_USD, type Rig, runRows, startLanes, tally, usdText } from './rig.ts'

const LANES = 6
const DROP_MS = 400
const BETWEEN_MS = 900
const TOLD_MS = 60_000

export const lostTells = async (rig: Rig, seconds: number): Promise<Figure[]> => {
  const proxy = rig.proxy!
  rig.upstream.share = 0.5
  const id = await rig.budget(1_000)
  const before = rig.upstream.billed
  const load = startLanes(rig, LANES, 20)
  let dropped = 0
  for (const untilMs = performance.now() + seconds * 1_000; performance.now() < untilMs; dropped++) {
    proxy.dropAnswers = true
    await Bun.sleep(Math.random() * DROP_MS)
    // What was sent while answers were dropped stands in the log, and its sender does not know.
    proxy.cut()
    proxy.dropAnswers = false
    await Bun.sleep(Math.random() * BETWEEN_MS)
  }
  await load.stop()
  const billed = Math.round((rig.upstream.billed - before) * COST_NANO_USD)
  let spent = -1
  let read = await readAccounts(rig, id)
  for (const untilMs = performance.now() + TOLD_MS; performance.now() < untilMs; await Bun.sleep(1_000)) {
    read = await readAccounts(rig, id)
    spent = read.accounts.reduce((sum, account) => sum + spentOf(account).nano_usd, 0)
    if (spent === billed) break
  }
  const { matches, difference_usd, outcomes } = await rig.verify(id)
  return [
    {
      row: 'B6',
      what:
        `${rig.gateways.length} instances, the broker's answers dropped and all connections cut ${dropped} times in ` +
        `${seconds} s (${tally(load.statuses)}; ${read.repeated} of ${read.records} records stand twice)`,
      figure:
        `leases and outcomes differ by ${usdText(Math.abs(spent - billed) / 1e9)}, log ` +
        `and account by ${usdText(Math.abs(difference_usd))}`,
      n: outcomes,
      good: spent === billed && matches && read.repeated > 0 && outcomes > 0,
    },
  ]
}

if (import.meta.main) await runRows((rig) => lostTells(rig, numberArgument('seconds', 60)), { proxied: true })
