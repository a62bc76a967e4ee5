// B4: a window ends with requests in flight. The script waits for the end of a real hour in the time zone that has one
// next: up to half an hour.
// `bun tests/faults/budgets/windows.ts [--instances 3] [--requests 500]`
import { spentOf } from '../../../src/domain/budgets/account.ts'
import { type Figure, numberArgument } from '../control/figures.ts'
import { readAccounts } from './accounts.ts'
import { COST_NANO_USD, type Rig, runRows, tally, usdText } from './rig.ts'

/** Their hours begin at 0, 15 and 30 minutes past those of UTC. */
const ZONES = ['UTC', 'Asia/Kathmandu', 'Asia/Kolkata'] as const
const MINUTE_MS = 60_000
/** For the budget to be made, and the requests to be under way. */
const SOONEST_MS = 25_000
const BEFORE_MS = 4_000
const DELAY_MS = 8_000
const TOLD_MS = 20_000

const offsetMinutes: Readonly<Record<(typeof ZONES)[number], number>> = {
  ...{ UTC: 0, 'Asia/Kathmandu': 345, 'Asia/Kolkata': 330 },
}

/** Which zone's hour ends next, and when. */
const nextEnd = (nowMs: number): { zone: string; endMs: number } =>
  ZONES.map((zone) => {
    const shiftMs = (offsetMinutes[zone] % 60) * MINUTE_MS
    const hourMs = 60 * MINUTE_MS
    const endMs = Math.ceil((nowMs + SOONEST_MS + shiftMs) / hourMs) * hourMs - shiftMs
    return { zone, endMs }
  }).reduce((first, each) => (each.endMs < first.endMs ? each : first))

export const windows = async (rig: Rig, count: number): Promise<Figure[]> => {
  const { zone, endMs } = nextEnd(Date.now())
  console.error(`waits for ${new Date(endMs).toISOString()} (${zone})`)
  await Bun.sleep(Math.max(0, endMs - Date.now() - SOONEST_MS + 5_000))
  // Each window admits a few more requests than are sent.
  const id = await rig.budget(((count + 20) * COST_NANO_USD) / 1e9, { window: 'hour', timezone: zone })
  await rig.chat(rig.gateways[0]!)
  rig.upstream.delayMs = DELAY_MS
  const ask = () =>
    Array.from({ length: count }, (_, i) => rig.chat(rig.gateways[i % rig.gateways.length]!).catch(() => 0))
  await Bun.sleep(Math.max(0, endMs - Date.now() - BEFORE_MS))
  const before = ask()
  await Bun.sleep(Math.max(0, endMs - Date.now() + 1_000))
  const startedAfter = rig.upstream.billed
  const after = ask()
  const statuses = [...(await Promise.all(before)), ...(await Promise.all(after))]
  const billed = rig.upstream.billed * COST_NANO_USD
  let sums: number[] = []
  for (const untilMs = performance.now() + TOLD_MS; performance.now() < untilMs; await Bun.sleep(500)) {
    const { accounts } = await readAccounts(rig, id)
    sums = accounts.map((account) => spentOf(account).nano_usd)
    if (sums.reduce((sum, each) => sum + each, 0) === billed) break
  }
  const spent = sums.reduce((sum, each) => sum + each, 0)
  const limit = (count + 20) * COST_NANO_USD
  const windowsText = sums.map((each) => usdText(each / 1e9)).join(' and ')
  return [
    {
      row: 'B4',
      what:
        `${rig.gateways.length} instances, an hour ends with ${count} requests in flight (answered before its ` +
        `end: ${startedAfter - 1}), ${count} more in the next (${tally(statuses)})`,
      figure:
        `spent ${windowsText} in its windows, differs from what was billed by ` +
        `${usdText(Math.abs(spent - billed) / 1e9)}`,
      n: statuses.length,
      good:
        spent === billed &&
        sums.filter((each) => each > 0).length === 2 &&
        sums.every((each) => each <= limit) &&
        startedAfter < count,
    },
  ]
}

if (import.meta.main) await runRows((rig) => windows(rig, numberArgument('requests', 500)))
