// B5: an instance with a lease and requests in flight is stopped (SIGSTOP), an operator retires it, the others spend
// what it held, and it resumes.
// `bun tests/faults/budgets/stopped.ts [--instances 3] [--rounds 1]`
import { type Figure, numberArgument } from '../control/figures.ts'
import { COST_NANO_USD, type Rig, runRows, tally, usdText } from './rig.ts'

const ADMITS = 200
/** Longer than a lease is good, and than an instance may be silent before an operator may retire it. */
const STOPPED_MS = 95_000
const AFTERWARDS = 200
const TOLD_MS = 30_000

/** What the retired one held is free when that is folded everywhere; until then the others are refused it. */
const SPENT_WITHIN_MS = 60_000

/** The others send requests in turn until the budget is spent. */
const drain = async (rig: Rig, isSpent: () => boolean): Promise<number[]> => {
  const statuses: number[] = []
  const giveUpMs = performance.now() + SPENT_WITHIN_MS
  for (let i = 0; !isSpent() && performance.now() < giveUpMs; i++) {
    const gateway = rig.gateways[1 + (i % (rig.gateways.length - 1))]!
    const status = await rig.chat(gateway).catch(() => 0)
    statuses.push(status)
    if (status !== 200) await Bun.sleep(200)
  }
  return statuses
}

const retire = async (rig: Rig, instance: string): Promise<void> => {
  const path = `/admin/v1/instances/${instance}/retire`
  const answer = await rig.gateways[1]!.request(path, { body: { reason: 'stopped' } })
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
}

const instancesOf = async (rig: Rig): Promise<{ id: string; holds_usd: number }[]> => {
  const answer = await rig.gateways[1]!.request('/admin/v1/instances')
  return ((await answer.json()) as { instances: { id: string; holds_usd: number }[] }).instances
}

export const stopped = async (rig: Rig): Promise<Figure[]> => {
  const [first] = rig.gateways
  const limitUsd = (ADMITS * COST_NANO_USD) / 1e9
  const billedBefore = rig.upstream.billed
  const id = await rig.budget(limitUsd, { window: 'lifetime', scope: { type: 'model', id: 'm' } })
  const known = new Set((await instancesOf(rig)).map((each) => each.id))
  for (let i = 0; i < 30; i++) await rig.chat(first!)
  const [holding] = (await instancesOf(rig)).filter((each) => !known.has(each.id) || each.holds_usd > 0)
  if (holding === undefined) throw new Error('nobody holds anything')
  rig.upstream.delayMs = 1_500
  const underWay = Array.from({ length: 5 }, () => rig.chat(first!).catch(() => 0))
  await Bun.sleep(1_000)
  process.kill(first!.pid, 'SIGSTOP')
  rig.upstream.delayMs = 20
  await Bun.sleep(STOPPED_MS)
  await retire(rig, holding.id)
  const others = await drain(rig, () => rig.upstream.billed - billedBefore >= ADMITS)
  const billedWhile = rig.upstream.billed
  process.kill(first!.pid, 'SIGCONT')
  const late = await Promise.all(Array.from({ length: AFTERWARDS }, () => rig.chat(first!).catch(() => 0)))
  const own = await Promise.all(underWay)
  const billedUsd = ((rig.upstream.billed - billedBefore) * COST_NANO_USD) / 1e9
  const after = ((rig.upstream.billed - billedWhile) * COST_NANO_USD) / 1e9
  let standing = await rig.standing(id)
  for (const untilMs = performance.now() + TOLD_MS; performance.now() < untilMs; await Bun.sleep(500)) {
    standing = await rig.standing(id)
    if (standing.reserved_usd === 0) break
  }
  const { matches, difference_usd } = await rig.verify(id)
  return [
    {
      row: 'B5',
      what:
        `${rig.gateways.length} instances, the holder of a lease stopped for ` +
        `${STOPPED_MS / 1_000} s and retired meanwhile (its 5 under way: ${tally(own)}; the ` +
        `others: ${tally(others)}), then asked ${AFTERWARDS} times (${tally(late)})`,
      figure:
        `spent after its lease expired ${usdText(after)}, billed ${usdText(billedUsd)} of ` +
        `${usdText(limitUsd)}, reserved at the end ${usdText(standing.reserved_usd)}, log and ` +
        `account differ by ${usdText(Math.abs(difference_usd))}`,
      n: AFTERWARDS,
      good:
        billedUsd <= limitUsd + 1e-9 &&
        !late.includes(200) &&
        after === 0 &&
        standing.reserved_usd === 0 &&
        others.includes(200) &&
        matches,
    },
  ]
}

if (import.meta.main) {
  await runRows(async (rig) => {
    const figures: Figure[] = []
    for (let round = 0; round < numberArgument('rounds', 1); round++) figures.push(...(await stopped(rig)))
    return figures
  })
}
