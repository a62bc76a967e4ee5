// Puts together what budgets need: a client of the log of its own, the leases, and the release of what dead processes
// held.

import { randomBytes } from 'node:crypto'
import type { Config } from '../config/schema.ts'
import { RETIRED_IN_PARTS_SINCE } from '../domain/budgets/budget-events.ts'
import { CHAIN_ROW } from '../domain/chain.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { wallMs } from '../lib/time/wall-clock.ts'
import { openLog } from '../log/open-log.ts'
import type { EventLog } from '../log/port.ts'
import type { LocalSpool } from '../log/spool/spool.ts'
import { TOPICS } from '../log/topics.ts'
import { type OpenBudgets, openBudgets } from '../state/budgets/budgets.ts'
import type { LiveChain } from '../state/live-chain.ts'
import { budgetVerifier, type VerifyBudget } from '../upkeep/budgets/budget-verification.ts'
import { closeLate, deadOf, type FindDead, othersOf, recoverLeases } from '../upkeep/budgets/lease-recovery.ts'
import { startRetirement } from '../upkeep/budgets/retirement.ts'
import { writersOf } from '../upkeep/budgets/spool-spending.ts'
import type { ControlPlane } from './control-plane.ts'
import type { Outcomes, Recovery } from './outcomes.ts'
import { isKafka, logSettings } from './settings.ts'

export interface BudgetParts {
  readonly budgets: OpenBudgets
  readonly verify: VerifyBudget
  /**
   * Releases what the dead processes of a spool held, once the control state is that of the log. `isSettled`: what they
   * left open is.
   */
  recover(spool: LocalSpool, signal: AbortSignal, isSettled: boolean): Promise<Recovery>
  close(): Promise<void>
}

/** How long the last reports may take when the process stops. */
const LAST_REPORTS_MS = 2_000
/** The state of the log is published by events, and checked so often besides. */
const LOOK_MS = 60_000

/** Replacements for the log's client and for chance; left out: the real ones. */
export interface BudgetPorts {
  readonly log?: EventLog
  readonly newEpoch?: () => string
  /** After which silence an instance that holds leases is retired. */
  readonly silenceMs?: number
}

export const openBudgetParts = (
  config: Pick<Config, 'data' | 'log'>,
  { live }: Pick<ControlPlane, 'live'>,
  outcomes: Pick<Outcomes, 'spool' | 'needFrom'>,
  diagnostics: Diagnostics,
  ports: BudgetPorts = {},
): BudgetParts => {
  const log = ports.log ?? openLog(logSettings(config, 'budgets'))
  const { spool } = outcomes
  const newEpoch = ports.newEpoch ?? (() => randomBytes(8).toString('hex'))
  const shared = { log, instance: spool.instance, nowMs: wallMs, newEpoch, diagnostics }
  const budgets = openBudgets({
    ...shared,
    live,
    epoch: spool.epoch,
    partitions: () => live.control.table('chain').get(CHAIN_ROW)?.partitions[TOPICS.budgets.name] ?? 1,
    // A lease is never spent longer than it lasts.
    monotonicMs: () => performance.now(),
    spoolEnd: () => spool.end,
    onNeeded: (record) => outcomes.needFrom(record),
  })
  const budgetRow = (id: string) => live.control.table('budgets').get(id)
  const retirement = startRetirement({
    ...shared,
    ledger: budgets.leases.ledger,
    retirements: () => [...live.control.table('retirements').rows()].map(([, row]) => row),
    inParts: () => (live.control.table('chain').get(CHAIN_ROW)?.schema_version ?? 1) >= RETIRED_IN_PARTS_SINCE,
    random: Math.random,
    ...(ports.silenceMs === undefined ? {} : { silenceMs: ports.silenceMs }),
  })
  const findDead = (returned: LocalSpool, writers: ReadonlySet<string>): FindDead => {
    // Held for the life of this process, or, where a sender ships it, until it is removed.
    if (returned === spool || isKafka(config)) return () => othersOf(returned, budgets)
    // The spool is released after this, and another process may use it by then.
    const dead = deadOf(returned, writers, { budgets })
    return () => (name) => dead.has(name)
  }
  return {
    budgets,
    verify: budgetVerifier({ log, budgets }),
    async recover(returned, signal, isSettled) {
      const writers = writersOf(returned)
      if (!(await untilLive(live, signal))) return { isDone: false, late: Promise.resolve(false) }
      const deps = { ...shared, budgets, budgetRow }
      const isDone = await recoverLeases(returned, deps, signal, isSettled)
      // An unreadable outcome holds its lease and waits for a build that can read it: the spool has to stay.
      const isOver = isDone && isSettled
      const late = isOver ? closeLate(returned, findDead(returned, writers), deps, signal) : Promise.resolve(false)
      return { isDone, late }
    },
    async close() {
      await retirement.stop()
      await budgets.close(LAST_REPORTS_MS)
      await log.close()
    },
  }
}

/**
 * A snapshot that is served from while the log is not reachable is older than what the dead process had. False: stopped
 * before.
 */
const untilLive = async (live: Pick<LiveChain, 'ready' | 'status' | 'condition'>, signal: AbortSignal) => {
  const ended = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
  await Promise.race([live.ready(), ended])
  const isLive = () => live.status().phase === 'live'
  while (!signal.aborted && !isLive()) await Promise.race([live.condition.until(isLive, LOOK_MS), ended])
  return !signal.aborted
}
