// A stream that costs more the longer it goes on. It extends its reservation before the received content goes out, is
// cut where that is refused, and its client may leave while it waits.
import type { RequestExtended } from '../../src/domain/events/request.ts'
import type { RequestBudgets } from '../../src/state/budgets/request-budgets.ts'
import type { Gateway } from './machine.ts'
import { type Asked, type Clients, type CostSoFar, type Ended, recordedBudget } from './requests.ts'
import type { Run } from './run.ts'

/** As `inference/money/budget.ts` asks for it. */
const stepOf = (bound: number | null, spent: number): number =>
  bound === null || spent <= bound ? 0 : Math.max(spent - bound, Math.ceil(bound / 4))

interface Spent {
  nanoUsd: number
  tokens: number
}

interface Stream {
  readonly run: Run
  readonly clients: Clients
  readonly asked: Asked
  readonly gateway: Gateway
  readonly own: RequestBudgets
  /** Of the answer up to its first content. */
  readonly first: CostSoFar
}

export const streamed = async ({ run, clients, asked, gateway, own, first }: Stream): Promise<Ended> => {
  const { random, scheduler } = run
  const { process } = gateway
  const spent: Spent = { nanoUsd: 0, tokens: 0 }
  for (let left = random.int(2, 7); left > 0; left--) {
    await run.wait(random.next() * 500)
    if (!process.alive) break
    const { nanoUsd, tokens } = spent
    spent.nanoUsd += random.int(0, Math.ceil(first.bound / 2))
    spent.tokens += random.int(0, Math.ceil(first.tokens / 2))
    const bound = own.bound()
    const more = { nanoUsd: stepOf(bound.nano_usd, spent.nanoUsd), tokens: stepOf(bound.tokens, spent.tokens) }
    if (more.nanoUsd === 0 && more.tokens === 0) continue
    const sinceMs = scheduler.nowMs
    const asking = own.extend(more)
    const leaves = random.chance(0.4) ? run.wait(random.next() * 40).then(() => 'left' as const) : null
    const refused = leaves === null ? await asking : await Promise.race([asking, leaves])
    // What has come beyond the reservation does not go out.
    if (refused !== null) {
      run.note(
        process.name,
        `${asked.id} ends in the midst of its stream: ${refused === 'left' ? 'left' : refused.reason}`,
      )
      return endedEarly(run, own, { nanoUsd, tokens })
    }
    if (!process.alive) break
    const reserved = own.bound().nano_usd ?? first.bound
    const parts = own.parts()
    const budget = recordedBudget(parts, gateway)
    const extended: RequestExtended = { id: asked.id, n: first.n, reserved_nano_usd: reserved, ...budget }
    await clients.append(asked, gateway, 'request.extended', extended, asked.admission, parts)
    if (!process.alive) break
    clients.holds(asked, parts ?? [], sinceMs)
  }
  const billed = { nano_usd: spent.nanoUsd, tokens: spent.tokens }
  return { cost: { ...spent, exact: true }, billed, succeeded: true }
}

/** The upstream reports no cost: the upper bound is charged to a lease, and the estimate is reported. */
const endedEarly = ({ random }: Run, own: RequestBudgets, { nanoUsd, tokens }: Spent): Ended => {
  const bound = own.bound()
  const isSeen = random.chance(0.5)
  const atMost = isSeen ? { nano_usd: nanoUsd, tokens } : { nano_usd: null, tokens: null }
  const upTo = (seen: number, reserved: number | null) =>
    isSeen || reserved === null ? seen : random.int(seen, reserved)
  return {
    cost: { nanoUsd: random.int(0, nanoUsd), tokens: random.int(0, tokens), exact: false, atMost },
    billed: { nano_usd: upTo(nanoUsd, bound.nano_usd), tokens: upTo(tokens, bound.tokens) },
    succeeded: false,
  }
}
