// Bugs that are planted in the modules as they are loaded, to check that the simulation finds them. The files of
// production are not touched: only the loaded text is changed.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Focus } from './scenario/focus.ts'

export interface Mutant {
  /** Of the repository. */
  readonly file: string
  /** Stands there once. */
  readonly text: string
  readonly planted: string
  /** Where few runs can find it. */
  readonly focus?: Focus
}

const ROOT = join(import.meta.dir, '..', '..')

export const MUTANTS: Readonly<Record<string, Mutant>> = {
  // The chain rule: a decision counts on whatever it was decided.
  'chain-any-parent': {
    file: 'src/domain/kernel/decision.ts',
    text: "parent === tip ? 'counts' : 'lost'",
    planted: "parent !== '' ? 'counts' : 'lost'",
  },
  // A commit is answered when it was written, not when it counts.
  'chain-written-is-counted': {
    file: 'src/state/commit/queue.ts',
    text: "live.verdictOf(id) === 'counted')\n    const dead",
    planted: 'live.verdictOf(id) !== null)\n    const dead',
  },
  // The dedupe of outcomes: the last of what was applied is taken once more.
  'dedupe-repeats-the-last': {
    file: 'projections/repeats.ts',
    text: 'origin.sequence <= (applied.get(name) ?? -1)',
    planted: 'origin.sequence < (applied.get(name) ?? -1)',
  },
  // What follows a repeat is taken for one.
  'dedupe-drops-the-next': {
    file: 'projections/repeats.ts',
    text: 'applied.set(name, origin.sequence)',
    planted: 'applied.set(name, origin.sequence + 1)',
  },
  // The dedupe of commands: an Idempotency-Key is forgotten at once.
  'dedupe-forgets-causes': {
    file: 'src/state/commit/batch.ts',
    text: 'row.logAtMs <= logAtMs - CAUSE_RETENTION_MS',
    planted: 'row.logAtMs <= logAtMs + CAUSE_RETENTION_MS',
  },
  // The settlement of orphans: the first of them is forgotten.
  'orphans-forgotten': {
    file: 'src/upkeep/budgets/orphans.ts',
    text: 'spool.openAtStart.map(',
    planted: 'spool.openAtStart.slice(1).map(',
  },
  // What was settled already is settled once more.
  'orphans-settled-twice': {
    file: 'src/log/spool/open-admissions.ts',
    text: 'if (admission !== null) this.settled(admission)',
    planted: 'if (admission === "") this.settled(admission)',
  },
  // What a head carries stands there once: one damaged place takes it.
  'heads-said-once': {
    file: 'src/log/segments/header.ts',
    text: 'at += buffer.copy(buffer, at, from, at)',
    planted: 'at += from - from',
    focus: 'heads',
  },
  // Only what the admission reserved, not what a further attempt did.
  'orphans-at-their-first-price': {
    file: 'src/upkeep/budgets/orphans.ts',
    text: 'records.findLast((each)',
    planted: 'records.find((each)',
  },
  // What a process left open whose spool another one adopts is forgotten.
  'adopted-not-settled': {
    file: 'src/composition/outcomes.ts',
    text: 'await settle(adopted, diagnostics, closing.signal)',
    planted: 'adopted.number >= 0',
  },
  // An adopted spool goes before it is shipped.
  'adopted-not-shipped': {
    file: 'src/composition/outcomes.ts',
    text: 'if (sender !== null) sender.drain(adopted, late)',
    planted: 'if (sender !== null) await adopted.close({ remove: true })',
  },
  // What a dead process left in an adopted spool is not reported.
  'adopted-not-recovered': {
    file: 'src/composition/outcomes.ts',
    text: 'await recover(adopted, closing.signal, isSettled)',
    planted: '{ isDone: isSettled, late: Promise.resolve(true) }',
  },
  // A start from a snapshot forgets what stands in one of its tables.
  'snapshot-forgets-causes': {
    file: 'src/domain/control.ts',
    text: 'this.#tables.get(table)!.set(id, row)',
    planted: "if (table !== 'causes') this.#tables.get(table)!.set(id, row)",
    focus: 'snapshots',
  },
  // A start while the brokers are away serves the snapshot alone.
  'start-forgets-what-is-stored': {
    file: 'src/state/restore/stored-tail.ts',
    text: 'if (end <= from || stored[0]!.offset > from) return snapshot',
    planted: 'if (end >= 0) return snapshot',
    focus: 'away',
  },
  // The expiry of leases: an instance that was away for long spends what was granted to others since.
  'leases-never-expire': {
    file: 'src/domain/budgets/lease.ts',
    text: 'return nowMs < this.usableUntilMs && nanoUsd',
    planted: 'return nowMs >= 0 && nanoUsd',
  },
  // Expiry gives something back by itself.
  'leases-expire-too-much': {
    file: 'src/domain/budgets/holder.ts',
    text: 'most(minus(granted, returned), spent)',
    planted: 'spent',
  },
  // A window carries what overlaps it once, when it is opened: a time zone that is changed back and forth clears what
  // was spent.
  'windows-carry-once': {
    file: 'src/domain/budgets/account.ts',
    text: '{ ...evolved, accounts: withOverlapping(accounts, evolved.accounts) }',
    planted: 'evolved',
  },
  // A limit that begins to hold is granted from at once, before others have published what they counted.
  'holds-before-told': {
    file: 'src/state/budgets/budgets.ts',
    text: 'budget.requestsFromMs = nowMs + REPORTED_WITHIN_MS',
    planted: 'budget.requestsFromMs = 0',
    focus: 'counting',
  },
  // What was only counted is published at its usual time, not when it begins to matter.
  'counted-is-told-late': {
    file: 'src/state/budgets/budgets.ts',
    text: 'if (open.lease.unreportedSinceMs !== null) leases.report(open)',
    planted: 'if (open.lease.unreportedSinceMs === -1) leases.report(open)',
    focus: 'counting',
  },
  // A lease that is granted to a request which has ended since is held for ever.
  'late-grants-leak': {
    file: 'src/state/budgets/request-budgets.ts',
    text: 'if (!this.#settled) entry.granted()',
    planted: 'if (this.#requested.length > -1) entry.granted()',
  },
  // What a retired instance publishes late counts in addition to what was booked as its open amount.
  'retired-counts-twice': {
    file: 'src/domain/budgets/account.ts',
    text: '{ orphaned: minus(orphaned, minus(spent, before.spent)) }',
    planted: '{ orphaned }',
  },
  // A late copy of what was shipped opens again what was settled behind it.
  'retired-reads-repeats': {
    file: 'src/upkeep/budgets/unsettled-spending.ts',
    text: 'if (sequence <= (this.#read.get(start) ?? -1)) return true',
    planted: 'if (sequence < -1) return true',
    focus: 'retired',
  },
  // Tokens beyond a reservation leave the account open.
  'tokens-overrun-unnoticed': {
    file: 'src/domain/budgets/account.ts',
    text: 'const overran = !isEqual(overrun, overrunIn(before))',
    planted: 'const overran = overrun.nano_usd > before.overrun_nano_usd',
  },
  // An attempt without a reported cost is charged its estimate.
  'unsaid-at-its-estimate': {
    file: 'src/state/budgets/request-account.ts',
    text: 'if (atMost !== undefined) {',
    planted: 'if (atMost === null) {',
  },
}

/** Plants a bug in whatever is imported from now on. */
export const plant = (name: string): void => {
  const mutant = MUTANTS[name]
  if (mutant === undefined) throw new Error(`no bug is called "${name}": ${Object.keys(MUTANTS).join(', ')}`)
  const path = join(ROOT, mutant.file)
  const source = readFileSync(path, 'utf8')
  if (source.split(mutant.text).length !== 2) throw new Error(`${mutant.file} does not hold once: ${mutant.text}`)
  Bun.plugin({
    name: 'mutant',
    setup(build) {
      build.onLoad({ filter: new RegExp(`${mutant.file.replace(/[.]/g, '\\.')}$`) }, () => ({
        contents: source.replace(mutant.text, () => mutant.planted),
        loader: 'ts',
      }))
    },
  })
}
