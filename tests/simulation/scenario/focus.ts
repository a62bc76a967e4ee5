// Makes some faults of a run more frequent, so that a planted bug that needs them is found in some of a hundred runs,
// however the code's timing shapes a seed.
import { type Fault, retiring, type Scenario } from './scenario.ts'
import type { Widening } from './widening.ts'

/**
 * Limits that begin to hold for what was counted; damaged heads of segments; starts from snapshots; starts while the
 * brokers are away; an instance that is taken for gone while the network delivers messages twice.
 */
export const FOCUSES = ['counting', 'heads', 'snapshots', 'away', 'retired'] as const
export type Focus = (typeof FOCUSES)[number]

export interface RunOptions {
  readonly keepsTrace?: boolean
  /** No budgets that change. */
  readonly isPlain?: boolean
  readonly focus?: Focus | null
}

type Timed = Scenario['faults'][number]

const MOST_FLIPS = 3
const SHORT_SEGMENT_BYTES = 2_000
const COMMANDS_MORE = 3
const OFTEN = 0.1
const AWAY_MS = 6_000

/** The scenario as it is then. */
export const focused = (focus: Focus | null, seed: number, scenario: Scenario): Scenario => {
  if (focus === 'heads')
    return { ...scenario, segmentBytes: SHORT_SEGMENT_BYTES, faults: scenario.faults.map(killed(MOST_FLIPS)) }
  if (focus === 'snapshots' || focus === 'away') {
    const commandEveryMs = scenario.commandEveryMs / COMMANDS_MORE
    const kills = scenario.faults.map(killed(0))
    const faults = focus === 'away' ? kills.flatMap(away) : kills
    return { ...scenario, snapshots: true, commandEveryMs, faults }
  }
  if (focus !== 'retired') return scenario
  const network = { ...scenario.network, late: OFTEN, twice: OFTEN }
  return { ...scenario, segmentBytes: SHORT_SEGMENT_BYTES, network, faults: [], retires: retiring(seed) }
}

/** Null: budgets do not change in this run. */
export const focusedWidening = (
  focus: Focus | null,
  drawn: Widening | null,
  { activeMs }: Scenario,
): Widening | null => {
  if (focus === 'counting') return { kind: 'modes', calm: true, changeEveryMs: activeMs / 4, retires: null }
  if (focus !== 'retired' || drawn === null) return drawn
  return { ...drawn, kind: 'zones', calm: false, retires: null }
}

/** The log is away from when the process dies until it has served for a while. */
const away = (fault: Timed): Timed[] => {
  if (fault.kind !== 'kill') return [fault]
  const { machine, forMs, atMs } = fault
  return [fault, { ...({ kind: 'isolate', machine, forMs: forMs + AWAY_MS } satisfies Fault), atMs }]
}

/** A process that would stop or stand still is killed instead, and finds so many flipped bits. */
const killed =
  (flips: number) =>
  (fault: Timed): Timed => {
    if (fault.kind === 'kill') return { ...fault, flips: Math.max(flips, fault.flips) }
    if (fault.kind !== 'stop' && fault.kind !== 'pause') return fault
    const { machine, forMs, atMs } = fault
    return { ...({ kind: 'kill', machine, power: false, flips, forMs } satisfies Fault), atMs }
  }
