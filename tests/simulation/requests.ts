// Clients and what a gateway does for them in the order of `inference/chat.ts`: reserve, admit, call, retry if needed,
// settle, answer.
// Budgets and spool are the real ones; the upstream is a delay and a price. What clients received is kept, to be
// compared with the log.
import { type Amount, NO_AMOUNT, plus } from '../../src/domain/budgets/amount.ts'
import {
  type BudgetCharge,
  type BudgetPart,
  type RecordedPart,
  recordedCharge,
  recordedPart,
} from '../../src/domain/budgets/recorded-parts.ts'
import type { PlanRecord, RequestAdmitted, RequestAttempted, RequestSettled } from '../../src/domain/events/request.ts'
import { type Appended, REFUSABLE, type RecordId, SpoolClosed } from '../../src/log/spool/port.ts'
import type { Bound, Cost } from '../../src/state/budgets/attempt-bounds.ts'
import type { RequestBudgets } from '../../src/state/budgets/request-budgets.ts'
import type { Gateway, Machine } from './machine.ts'
import type { Run } from './run.ts'
import { KEY, TENANT } from './scenario/beginning.ts'
import { CHANGING } from './scenario/widening.ts'
import { streamed } from './streams.ts'

/** What is known of a request from outside. */
export interface Asked {
  readonly id: string
  readonly process: string
  readonly machine: string
  readonly tenant: string
  readonly key: string
  /** When its first reservation was requested. */
  readonly begunMs: number
  /** The admission was acknowledged: from then on the upstream is called. */
  admission: Appended | null
  /** The client holds the whole answer. */
  answered: boolean
  /** The cost of the outcome that the client received. */
  costNanoUsd: number | null
  /** Ids of its records that were acknowledged. */
  readonly acknowledged: RecordId[]
  /** What it reserves of each account: as much as it may come to. */
  parts: readonly BudgetPart[]
  /** The reservations in its records: those that were acknowledged, and the one after them. */
  readonly said: string[]
  charges: readonly BudgetCharge[]
  /** What providers bill for it. */
  billed: Amount
  /** It will do nothing more. */
  over: boolean
}

export interface CostSoFar {
  /** Of attempts that failed. */
  earlier: number
  /** Of the attempt under way, nano-USD and tokens. */
  bound: number
  tokens: number
  /** Its number. */
  n: number
}

/** How the last attempt ended. */
export interface Ended {
  readonly cost: Cost
  /** What the provider bills for it. */
  readonly billed: Amount
  readonly succeeded: boolean
}

const facts = ({ id, key }: Asked, atMs: number) => ({ id, at_ms: atMs, key_id: key, requested_model: 'm' })
const plan: PlanRecord = {
  ...{ revision: 'r', seed: 0, digest: 0, text_bytes: 1, messages: 1, prompt_bytes: 1 },
}
const SUCCEEDED = { outcome: 'success' } as const
const FAILED = { outcome: 'error', status: 500, error_code: 'internal_error' } as const
/** Of all requests, where budgets change. */
const CHANGING_SHARE = 0.65

const called = (reserved: number) => ({
  ...{ provider: 'p', provider_id: 'prov_1', model: 'm', model_id: 'mod_1', reserved_nano_usd: reserved },
})

export class Clients {
  readonly asked = new Map<string, Asked>()
  /** JSON texts that were handed to a spool, by type and request. */
  readonly written = new Set<string>()
  /** Some outcome could not be written. */
  lostOutcomes = false
  /** A process died, so that a late copy may request a lease in its name. */
  someDied = false
  #number = 0

  constructor(private readonly run: Run) {}

  /** One request to a machine, if a gateway serves there. */
  ask(machine: Machine, share = CHANGING_SHARE): void {
    const { gateway } = machine
    if (gateway === null) return
    const { run } = this
    const isChanging = run.widening !== null && run.random.chance(share)
    const id = `req_${String(++this.#number).padStart(6, '0')}`
    const { name } = gateway.process
    const asked: Asked = {
      ...{ id, process: name, machine: machine.name, admission: null, answered: false, costNanoUsd: null },
      ...{ acknowledged: [], parts: [], said: [], charges: [], billed: NO_AMOUNT, over: false },
      ...(isChanging ? { tenant: CHANGING.tenant, key: CHANGING.key } : { tenant: TENANT, key: KEY }),
      begunMs: run.scheduler.nowMs,
    }
    this.asked.set(id, asked)
    run.scheduler.as(gateway.process, () => {
      void this.#serve(asked, gateway)
        .catch((error: unknown) => run.note(name, `${id} fails: ${error instanceof Error ? error.message : error}`))
        .finally(() => {
          asked.over = true
        })
    })
  }

  /** What a process worked on when it died. */
  died(process: string): void {
    this.someDied = true
    for (const asked of this.asked.values())
      if (asked.process === process && !asked.answered) {
        this.run.truth.forgets(asked)
        this.run.spending?.forgets(asked)
      }
  }

  /** Requests that a living process still works on. */
  underWay(isAlive: (process: string) => boolean): number {
    let count = 0
    for (const { over, process } of this.asked.values()) if (!over && isAlive(process)) count++
    return count
  }

  async #serve(asked: Asked, gateway: Gateway): Promise<void> {
    const { run } = this
    const { random } = run
    const { budgetParts, process } = gateway
    const atMs = Date.now()
    const own = budgetParts.budgets.of(asked.tenant, asked.key, null, atMs)
    const bound = this.#bound(asked)
    const refused = (await own?.reserve('prov_1', 'm', bound)) ?? null
    if (!process.alive) return
    if (refused !== null) {
      own!.settle()
      own!.outcomeWas('never_admitted')
      run.note(process.name, `${asked.id} is refused: ${refused.reason} of ${refused.open.account}`)
      return
    }
    const parts = own?.parts()
    const admitted: RequestAdmitted = {
      ...facts(asked, atMs),
      ...called(bound.nanoUsd!),
      plan,
      ...recordedBudget(parts, gateway),
    }
    run.note(process.name, `${asked.id} reserves ${bound.nanoUsd}`)
    const cost: CostSoFar = { earlier: 0, bound: bound.nanoUsd!, tokens: bound.tokens, n: 1 }
    let ended: Ended | null = null
    try {
      asked.admission = await this.append(asked, gateway, 'request.admitted', admitted, null, parts)
      if (!process.alive) return
      this.holds(asked, parts ?? [], asked.begunMs)
      await this.#attempts(asked, gateway, own, cost)
      if (!process.alive) return
      if (asked.tenant === CHANGING.tenant && own !== null && random.chance(0.6))
        ended = await streamed({ run, clients: this, asked, gateway, own, first: cost })
    } catch (error) {
      // Not recorded, so not called: as in the stations, the outcome says so if it can.
      if (error instanceof SpoolClosed && asked.admission === null) asked.admission = error.written
      own?.endAttempt(null)
      await this.#settle(asked, gateway, own, { atMs, cost: cost.earlier, succeeded: false })
      throw error
    }
    if (!process.alive) return
    ended ??= this.#answer(asked, cost)
    const last = ended.cost.nanoUsd!
    own?.endAttempt(ended.cost)
    asked.billed = plus(asked.billed, ended.billed)
    await this.#settle(asked, gateway, own, { atMs, cost: cost.earlier + last, succeeded: ended.succeeded })
    if (!process.alive || !ended.succeeded) return
    asked.answered = true
    asked.costNanoUsd = cost.earlier + last
    run.note(process.name, `${asked.id} is answered, ${asked.costNanoUsd} nano-USD`)
  }

  /** A whole answer, as the provider counts it: of a changing budget of tokens sometimes more than was reserved. */
  #answer({ tenant }: Asked, { bound, tokens }: CostSoFar): Ended {
    const { random, widening } = this.run
    const nanoUsd = random.chance(0.3) ? bound : random.int(0, bound)
    if (tenant !== CHANGING.tenant)
      return { cost: { nanoUsd, tokens: 10, exact: true }, billed: NO_AMOUNT, succeeded: true }
    const isMore = widening?.kind === 'tokens' && tokens > 0 && random.chance(0.2)
    const counted = isMore ? tokens + random.int(1, 400) : random.int(0, tokens)
    return {
      cost: { nanoUsd, tokens: counted, exact: true },
      billed: { nano_usd: nanoUsd, tokens: counted },
      succeeded: true,
    }
  }

  #bound({ tenant }: Asked): Bound {
    const { random } = this.run
    const nanoUsd = random.int(5_000, 60_000)
    return { nanoUsd, tokens: tenant === CHANGING.tenant ? random.int(50, 400) : 100 }
  }

  /** The record of the reservation is acknowledged. `sinceMs`: when it was requested. */
  holds(asked: Asked, parts: readonly BudgetPart[], sinceMs: number): void {
    this.run.truth.holds(asked, parts)
    this.run.spending?.holds(asked, parts, sinceMs)
  }

  /** Calls the upstream; sometimes it fails and another one is called. */
  async #attempts(asked: Asked, gateway: Gateway, own: RequestBudgets | null, cost: CostSoFar): Promise<void> {
    const { run } = this
    const { random } = run
    const { process } = gateway
    await run.wait(random.next() * (random.chance(0.1) ? 8_000 : 600))
    for (let n = 2; n <= 3 && random.chance(0.25); n++) {
      const failed = random.int(0, cost.bound)
      own?.endAttempt({ nanoUsd: failed, tokens: 1, exact: true })
      if (asked.tenant === CHANGING.tenant) asked.billed = plus(asked.billed, { nano_usd: failed, tokens: 1 })
      cost.earlier += failed
      cost.bound = 0
      cost.tokens = 0
      const sinceMs = run.scheduler.nowMs
      const next = this.#bound(asked)
      if (own !== null && (await own.reserve('prov_1', 'm', next)) !== null) return
      if (!process.alive) return
      const parts = own?.parts()
      const budget = recordedBudget(parts, gateway)
      const attempted: RequestAttempted = { id: asked.id, n, ...called(next.nanoUsd!), ...budget }
      await this.append(asked, gateway, 'request.attempted', attempted, asked.admission, parts)
      own?.recorded()
      if (!process.alive) return
      this.holds(asked, parts ?? [], sinceMs)
      cost.bound = next.nanoUsd!
      cost.tokens = next.tokens
      cost.n = n
      await run.wait(random.next() * 600)
      if (!process.alive) return
    }
  }

  async #settle(
    asked: Asked,
    gateway: Gateway,
    own: RequestBudgets | null,
    { atMs, cost, succeeded }: { readonly atMs: number; readonly cost: number; readonly succeeded: boolean },
  ): Promise<void> {
    asked.charges = own?.settle() ?? []
    const { admission, charges } = asked
    const settled: RequestSettled = {
      ...facts(asked, atMs),
      tenant_id: asked.tenant,
      ...(admission === null ? {} : { admission: admission.sequence }),
      ...(succeeded ? SUCCEEDED : FAILED),
      ...{ provider: 'p', provider_id: 'prov_1', routed_model: 'm', model_id: 'mod_1', finish_reason: 'stop' },
      ...{ prompt_tokens: 1, completion_tokens: 1, cost_nano_usd: cost, cost_basis: 'measured', price_version: 'r' },
      latency_ms: 1,
      ...(charges.length === 0 ? {} : { budget: charges.map((each) => recordedCharge(each, writerOf(gateway))) }),
    }
    this.run.truth.settles(asked)
    this.run.spending?.settles(asked)
    let isRecorded = true
    let durable: Promise<void> | null = null
    try {
      await this.append(asked, gateway, 'request.settled', settled, asked.admission)
    } catch (error) {
      isRecorded = error instanceof SpoolClosed && error.written !== null
      if (error instanceof SpoolClosed) durable = error.durable
      throw error
    } finally {
      if (!isRecorded && asked.admission !== null) this.lostOutcomes = true
      const fate = isRecorded ? 'recorded' : asked.admission === null ? 'never_admitted' : 'lost'
      if (durable === null) own?.outcomeWas(fate)
      else void durable.then(() => own?.outcomeWas(fate))
    }
  }

  async append(
    asked: Asked,
    { outcomes: { spool }, process }: Gateway,
    type: string,
    data: object,
    of: Appended | null,
    parts?: readonly BudgetPart[],
  ): Promise<Appended> {
    const text = JSON.stringify(data)
    if (parts !== undefined) asked.said.push(JSON.stringify(parts))
    this.written.add(`${type} ${text}`)
    const subject = `${asked.tenant}/${spool.instance}`
    const appended = await spool.append('requests', type, subject, text, of ?? REFUSABLE)
    if (process.alive) asked.acknowledged.push(appended.id)
    return appended
  }
}

/** Under this name a process writes. */
const writerOf = ({ outcomes: { spool } }: Gateway): string => `${spool.instance}.${spool.epoch}`

/** The optional member of a record: what the request may come to. */
export const recordedBudget = (
  parts: readonly BudgetPart[] | undefined,
  gateway: Gateway,
): { budget?: RecordedPart[] } =>
  parts === undefined ? {} : { budget: parts.map((part) => recordedPart(part, writerOf(gateway))) }
