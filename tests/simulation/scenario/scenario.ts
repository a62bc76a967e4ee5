// The faults of a run: the state of the network, and which faults strike when. All of it follows from the seed.
import type { NetworkFaults } from '../broker.ts'
import type { Durability } from '../machine.ts'
import type { Random } from './random.ts'

export type Fault =
  /** The process, or the machine with it, dies; it is started again later. */
  | {
      readonly kind: 'kill'
      readonly machine: number
      readonly power: boolean
      readonly flips: number
      readonly forMs: number
    }
  /** It dies in the middle of one of the next changes of its disk. */
  | {
      readonly kind: 'die'
      readonly machine: number
      readonly power: boolean
      readonly changes: number
      readonly forMs: number
    }
  | { readonly kind: 'stop'; readonly machine: number; readonly forMs: number }
  | { readonly kind: 'pause'; readonly machine: number; readonly forMs: number }
  | { readonly kind: 'isolate'; readonly machine: number | null; readonly forMs: number }
  | { readonly kind: 'clock'; readonly machine: number | null; readonly byMs: number }
  | { readonly kind: 'full'; readonly machine: number; readonly forMs: number }
  | { readonly kind: 'sync_fails'; readonly machine: number; readonly times: number }

export interface Scenario {
  readonly durabilities: readonly Durability[]
  /** Processes that share the data folder of another one: index -> index of a lower one. */
  readonly beside: Readonly<Record<number, number>>
  /** What has died dies again while it starts, or its disk or network fails then: how often, as a share. */
  readonly relapses: number
  /** Starts begin from snapshots, older than the log. */
  readonly snapshots: boolean
  readonly activeMs: number
  readonly requestEveryMs: number
  readonly commandEveryMs: number
  readonly segmentBytes: number
  readonly shortWrites: number
  readonly syncMs: number
  readonly network: NetworkFaults
  readonly faults: readonly (Fault & { readonly atMs: number })[]
  /**
   * At the end of the run this machine has no requests for a moment, and stands still for so long that the others
   * retire it. Null: no machine does.
   */
  readonly retires: { readonly machine: number; readonly forMs: number } | null
}

const MACHINES = 3
const MINUTE_MS = 60_000
/** After this silence an instance is retired. */
export const SILENCE_MS = 150_000
/** So long it stands still then: the others have seen it, and have spent what it held. */
const RETIRED_MS = 215_000

export const scenarioOf = (random: Random): Scenario => {
  const durabilities = Array.from({ length: MACHINES }, () =>
    random.pick<Durability>(['process', 'process', 'host', 'log']),
  )
  const activeMs = random.chance(0.08) ? random.int(70_000, 140_000) : random.int(6_000, 34_000)
  const level = random.pick([0, 0.02, 0.06, 0.12])
  const share = () => (random.chance(0.6) ? level * random.next() : 0)
  const network = {
    ...{ unavailable: share(), lostRequest: share(), lostAnswer: share(), late: share(), twice: share() },
    delayMs: random.pick([1, 5, 20, 120]),
  }
  const retires = random.chance(0.08) ? { machine: random.int(0, MACHINES - 1), forMs: RETIRED_MS } : null
  const requests = retires === null ? random.int(10, 40) : random.int(4, 12)
  const commands = random.int(3, 16)
  const count = random.int(0, 8)
  const faults = Array.from({ length: count }, () => ({
    ...faultOf(random, durabilities),
    atMs: Math.floor(random.next() * activeMs),
  }))
  return {
    ...{ durabilities, beside: {}, relapses: 0, snapshots: false, activeMs, network, faults, retires },
    requestEveryMs: activeMs / requests,
    commandEveryMs: activeMs / commands,
    segmentBytes: random.pick([2_000, 6_000, 20_000, 1_000_000]),
    shortWrites: random.chance(0.3) ? random.next() * 0.3 : 0,
    syncMs: random.pick([0.5, 4, 60, 400]),
  }
}

/** One machine is retired. */
export const retiring = (seed: number): Scenario['retires'] => ({ machine: seed % MACHINES, forMs: RETIRED_MS })

const faultOf = (random: Random, durabilities: readonly Durability[]): Fault => {
  const machine = random.int(0, MACHINES - 1)
  const anybody = random.chance(0.3) ? null : machine
  const power = durabilities[machine] === 'host' && random.chance(0.6)
  const forMs = random.chance(0.1) ? random.int(MINUTE_MS, 90_000) : random.int(50, 8_000)
  const kind = random.pick([
    'kill',
    'kill',
    'die',
    'die',
    'die',
    'stop',
    'pause',
    'isolate',
    'clock',
    'full',
    'sync_fails',
  ] as const)
  if (kind === 'kill') return { kind, machine, power, flips: random.chance(0.15) ? random.int(1, 3) : 0, forMs }
  if (kind === 'die') return { kind, machine, power, changes: random.int(0, 25), forMs }
  if (kind === 'isolate') return { kind, machine: anybody, forMs }
  if (kind === 'clock') {
    const byMs = random.pick([-3_600_000, -5_000, 700, 90_000, 3_600_000])
    // The broker's own clock is kept by its operator.
    return { kind, machine: anybody, byMs: anybody === null ? Math.sign(byMs) * 400 : byMs }
  }
  if (kind === 'sync_fails') return { kind, machine, times: random.int(1, 3) }
  return { kind, machine, forMs: kind === 'full' ? random.int(50, 4_000) : forMs }
}
