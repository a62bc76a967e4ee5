// Runs in which two processes share a data folder, a process is killed again while it starts, or starts begin from
// snapshots. Drawn separately from the rest of the scenario, so that a run without them is what its seed always was
// (`--plain`).
import type { Durability } from '../machine.ts'
import { Random } from './random.ts'
import type { Fault, Scenario } from './scenario.ts'

type Timed = Scenario['faults'][number]

const PAIRED_SHARE = 0.25
const RELAPSING_SHARE = 0.25
const RELAPSES = 0.6
const SNAPSHOTS_SHARE = 0.3

/** The scenario as it is then. */
export const harder = (seed: number, scenario: Scenario): Scenario => {
  const random = new Random(seed ^ 0x51ed_270b)
  const relapses = random.chance(RELAPSING_SHARE) ? RELAPSES : 0
  const snapshots = new Random(seed ^ 0x2b99_30e5).chance(SNAPSHOTS_SHARE)
  if (!random.chance(PAIRED_SHARE)) return { ...scenario, relapses, snapshots }
  const second = random.int(1, scenario.durabilities.length - 1)
  const first = random.int(0, second - 1)
  const durabilities = scenario.durabilities.map((each, i) => (i === second ? scenario.durabilities[first]! : each))
  const faults = scenario.faults.map((fault) => withoutPower(fault, durabilities))
  const endings = Array.from({ length: random.int(0, 2) }, () => bothDie(random, [first, second], scenario.activeMs))
  return {
    ...scenario,
    durabilities,
    relapses,
    snapshots,
    beside: { [second]: first },
    faults: [...faults, ...endings.flat()],
  }
}

/** A process whose durability promises nothing about a power cut gets none. */
const withoutPower = (fault: Timed, durabilities: readonly Durability[]): Timed =>
  'power' in fault && durabilities[fault.machine] !== 'host' ? { ...fault, power: false } : fault

/** Both end at once. The one that starts first takes the lowest spool, and the first process of the folder the rest. */
const bothDie = (random: Random, pair: readonly number[], activeMs: number): Timed[] => {
  const atMs = random.next() * activeMs
  return pair.map((machine) => ({
    ...({ kind: 'kill', machine, power: false, flips: 0, forMs: random.int(50, 5_000) } satisfies Fault),
    atMs,
  }))
}

/** What hits a process of a machine, by its number, while it starts. Whatever else happens: it dies again. */
export const relapse = (random: Random, machine: number, durability: Durability): Fault[] => {
  const forMs = random.int(50, 3_000)
  const power = durability === 'host' && random.chance(0.6)
  const dies: Fault = { kind: 'die', machine, power, changes: random.int(0, 12), forMs }
  const also = random.pick<Fault | null>([
    null,
    { kind: 'sync_fails', machine, times: random.int(1, 3) },
    { kind: 'full', machine, forMs: random.int(50, 2_000) },
    { kind: 'isolate', machine, forMs: random.int(50, 4_000) },
    { kind: 'clock', machine, byMs: random.pick([-5_000, 700]) },
  ])
  return also === null ? [dies] : [also, dies]
}
