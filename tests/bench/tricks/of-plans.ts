// Tricks of what a request needs before it is sent on: the candidates for its model, and its deadline.
import { candidatesFor } from '../../../src/inference/plan/candidates.ts'
import { Deadlines } from '../../../src/lib/event-loop/deadlines.ts'
import { entry } from '../../inference/gateway.ts'
import { policyOf } from '../../inference/plan/plans.ts'
import type { Trick } from './trick.ts'

const MANY = 100
const DEADLINE_MS = 60_000
const PROVIDERS = 5
const [MODEL, ...FALLBACKS] = ['model', 'second', 'third', 'fourth'] as const

/** As in the targets: a model of five providers, and three to fall back to. */
const sets = (): Trick => {
  const rows = [MODEL, ...FALLBACKS].map((name) =>
    Array.from({ length: PROVIDERS }, (_, i) => entry({ name, provider: `provider-${i}` })),
  )
  const entries = rows.flat()
  const policy = policyOf({ fallback: { models: [...FALLBACKS] } as never })
  // Rows are found by their names here too, as in a gateway.
  const byName = new Map(rows.map((of) => [of[0]!.name, of]))
  const catalogue = { version: 0, resolve: (name: string) => byName.get(name) ?? [], all: () => entries }
  if (candidatesFor(MODEL, 'usual', policy, catalogue).entries.length !== entries.length)
    throw new Error('not all of them are candidates')
  let version = 0
  return {
    name: 'the candidates for a model are gathered once for each state of the catalogue',
    at: 'inference/plan/candidates.ts',
    unit: 'plan over 20 models',
    each: MANY,
    trick: () => {
      for (let i = 0; i < MANY; i++) candidatesFor(MODEL, 'usual', policy, catalogue)
    },
    // Another state each time, so that nothing is remembered.
    plain: () => {
      for (let i = 0; i < MANY; i++) candidatesFor(MODEL, 'usual', policy, { ...catalogue, version: ++version })
    },
  }
}

const deadlines = (): Trick => {
  const all = new Deadlines()
  const overdue = () => {}
  return {
    name: 'many deadlines on one timer',
    at: 'lib/event-loop/deadlines.ts',
    unit: 'deadline that is kept',
    each: MANY,
    trick: () => {
      const deadlineMs = performance.now() + DEADLINE_MS
      const timed = Array.from({ length: MANY }, () => ({ place: -1, deadlineMs, overdue }))
      for (const each of timed) all.add(each)
      for (const each of timed) all.delete(each)
    },
    plain: () => {
      const timers = Array.from({ length: MANY }, () => setTimeout(overdue, DEADLINE_MS))
      for (const timer of timers) clearTimeout(timer)
    },
  }
}

/** By the name that `--only` takes. */
export const OF_PLANS = { sets, deadlines }
