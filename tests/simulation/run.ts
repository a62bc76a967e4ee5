// One run: three machines on one log, clients and operators, and the faults of the scenario. Then everything heals,
// drains and stops, and is checked.
import type { Outcomes } from '../../src/composition/outcomes.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { CONTROL } from '../../src/state/fold.ts'
import { Broker, LATEST_MS, QUIET_NETWORK } from './broker.ts'
import { Changes } from './changes.ts'
import { checkRun } from './checks/invariants.ts'
import { Spending } from './checks/spending.ts'
import { checkIdle, type Said, standingsOf } from './checks/standings.ts'
import { Truth } from './checks/truth.ts'
import { Operators } from './commands.ts'
import { EPOCH_MS, replaceGlobals } from './globals.ts'
import { Machine } from './machine.ts'
import { Clients } from './requests.ts'
import { beginning, PARTITIONS } from './scenario/beginning.ts'
import { flipBits } from './scenario/flips.ts'
import { focused, focusedWidening, type RunOptions } from './scenario/focus.ts'
import { giveUp } from './scenario/give-up.ts'
import { harder, relapse } from './scenario/harder.ts'
import { Random } from './scenario/random.ts'
import { type Fault, type Scenario, SILENCE_MS, scenarioOf } from './scenario/scenario.ts'
import { type Widening, widened, wideningOf } from './scenario/widening.ts'
import { NOBODY, Scheduler } from './scheduler.ts'
import { Trace } from './trace.ts'

export interface RunResult {
  readonly seed: number
  readonly violations: readonly string[]
  /** Of everything that happened. */
  readonly digest: string
  readonly lines: readonly string[]
  readonly events: number
  readonly answered: number
  readonly decided: number
}

const DRAIN_LIMIT_MS = 180_000
/** So long nothing is left to do: later records are published at the latest when all processes stop. */
const QUIET_MS = 2_500
const STOP_LIMIT_MS = 30_000
/**
 * By then, leases that no request draws from have gone back, and the closings at a start were read by every process.
 */
const IDLE_MS = 45_000
const READ_MS = 8_000
const MOST_VIOLATIONS = 20
/** Of all machines in a run. */
const SNAPSHOTS = 5

export class Run {
  readonly scheduler = new Scheduler()
  readonly random: Random
  readonly scenario: Scenario
  readonly broker: Broker
  readonly machines: readonly Machine[]
  readonly clients = new Clients(this)
  readonly operators = new Operators(this)
  readonly truth = new Truth(this)
  /** Null: budgets do not change in this run. */
  readonly widening: Widening | null
  readonly changes: Changes | null
  readonly spending: Spending | null
  /** The budgets that gateways report in the end. */
  said: readonly Said[] = []
  readonly violations: string[] = []
  /** Ids of records whose bytes were flipped, and of their requests. */
  readonly damaged = new Set<string>()
  /** Facts stored twice in heads of segments of which one copy is lost. */
  readonly damagedCopies = new Set<string>()
  readonly segmentBytes: number
  readonly silenceMs: number | undefined
  /** What damage may add to what is spent, nano-USD. */
  tolerated = 0
  /** A machine lost power. */
  lostPower = false
  /** Bits flip in heads of segments. */
  readonly hitsHeads: boolean
  readonly #trace: Trace

  constructor(
    readonly seed: number,
    { keepsTrace = false, isPlain = false, focus = null }: RunOptions,
  ) {
    const { scheduler } = this
    this.random = new Random(seed)
    const drawn = scenarioOf(this.random)
    const scenario = focused(focus, seed, isPlain ? drawn : harder(seed, drawn))
    this.hitsHeads = focus === 'heads'
    this.widening = isPlain ? null : focusedWidening(focus, wideningOf(seed, scenario), scenario)
    this.scenario = this.widening === null ? scenario : widened(scenario, this.widening)
    this.changes = this.widening === null ? null : new Changes(this, this.widening.kind, this.widening.calm)
    this.spending = this.widening === null ? null : new Spending(this, this.widening)
    this.segmentBytes = this.scenario.segmentBytes
    this.silenceMs = this.scenario.retires === null ? undefined : SILENCE_MS
    this.#trace = new Trace(() => scheduler.nowMs, keepsTrace)
    const partitions = (topic: string) => PARTITIONS[topic] ?? 1
    this.broker = new Broker({ scheduler, random: this.random, partitions, note: (who, what) => this.note(who, what) })
    const machines: Machine[] = []
    const { durabilities, beside } = this.scenario
    for (const [i, durability] of durabilities.entries())
      machines.push(new Machine(`m${i}`, durability, this, beside[i] === undefined ? null : machines[beside[i]]!))
    this.machines = machines
  }

  /** A data folder has more spools than processes: what a dead one left is not adopted yet. */
  get hasLeftSpools(): boolean {
    return this.machines.some((machine) => machine.spools().length > machine.together().length)
  }

  get controlEnd(): number {
    return this.broker.log.records(CONTROL).length
  }

  note(who: string, what: string): void {
    this.#trace.note(who, what)
  }

  violated(what: string): void {
    this.note('!!!', what)
    if (this.violations.length < MOST_VIOLATIONS) this.violations.push(what)
  }

  wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, delayMs))
  }

  whole(): RunResult {
    const restore = replaceGlobals(this.scheduler, this.random)
    try {
      this.#begin()
      this.#suffer()
      this.#heal()
      this.#retire()
      this.#drain()
      this.#idle()
      this.#stop()
      // Messages in flight arrive. What failed while its process lived is settled at its next start, and the state is
      // read from the log once more.
      this.scheduler.runUntil(this.scheduler.nowMs + 2 * LATEST_MS)
      for (const machine of this.machines) machine.start()
      this.#drain(true)
      this.#ask()
      this.#stop()
      checkRun(this)
    } catch (error) {
      this.violated(`the run breaks off: ${error instanceof Error ? (error.stack ?? error.message) : error}`)
    } finally {
      this.scheduler.as(NOBODY, () => void this.broker.close())
      restore()
    }
    const { seed, violations, scheduler, clients, operators } = this
    const answered = [...clients.asked.values()].filter((asked) => asked.answered).length
    const decided = operators.commanded.filter(({ outcome }) => outcome === 'changed').length
    const { digest, lines } = this.#trace
    return { seed, violations, digest, lines, events: scheduler.events, answered, decided }
  }

  #begin(): void {
    const { scheduler, broker, machines, scenario } = this
    this.note('-', `seed ${this.seed}: ${JSON.stringify({ ...scenario, faults: scenario.faults.length })}`)
    if (this.widening !== null) this.note('-', JSON.stringify(this.widening))
    for (const value of beginning(this.widening?.kind ?? null))
      scheduler.as(NOBODY, () => void broker.log.append(CONTROL, 0, [{ key: null, value }]))
    Object.assign(broker.faults, scenario.network)
    for (const machine of machines) {
      Object.assign(machine.disk.faults, { shortWrites: scenario.shortWrites, syncMs: scenario.syncMs })
      machine.start()
    }
    for (const fault of scenario.faults) scheduler.after(fault.atMs, NOBODY, () => this.#strike(fault))
    this.#repeat(scenario.requestEveryMs, () => this.clients.ask(this.random.pick(machines)))
    this.#repeat(scenario.commandEveryMs, () => this.operators.command(this.random.pick(machines)))
    if (scenario.snapshots)
      this.#repeat(scenario.activeMs / SNAPSHOTS, () => this.random.pick(machines).writeSnapshot())
    const { changes, widening } = this
    if (widening !== null) this.#repeat(widening.changeEveryMs, () => changes!.change(this.random.pick(machines)))
  }

  /** Again and again while the run is active, at random distances. */
  #repeat(everyMs: number, act: () => void): void {
    const { scheduler, random, scenario } = this
    const next = () =>
      scheduler.after(random.next() * 2 * everyMs, NOBODY, () => {
        if (scheduler.nowMs >= scenario.activeMs) return
        act()
        // Some come at once.
        while (random.chance(0.2)) act()
        next()
      })
    next()
  }

  #suffer(): void {
    this.scheduler.runUntil(this.scenario.activeMs)
  }

  /**
   * An instance holds leases, is quiet, and stands still until the others have retired it and spent what it held. Then
   * it resumes without knowing of it.
   */
  #retire(): void {
    const { scheduler, machines, clients, random, scenario } = this
    if (this.widening !== null && this.widening.retires !== null) giveUp(this, this.widening.retires)
    if (scenario.retires === null) return
    const quiet = machines[scenario.retires.machine]!
    const others = machines.filter((machine) => machine !== quiet)
    const ask = (machine: Machine, times: number, withinMs: number) => {
      for (let i = 0; i < times; i++) scheduler.after(random.next() * withinMs, NOBODY, () => clients.ask(machine))
    }
    scheduler.runUntil(scheduler.nowMs + 10_000)
    ask(quiet, 4, 2_000)
    scheduler.runUntil(scheduler.nowMs + 20_000)
    const { process } = quiet
    if (process === null || clients.underWay((name) => name === process.name) > 0) return
    const { forMs } = scenario.retires
    this.note(process.name, `stands still for ${forMs / 1_000} s`)
    scheduler.after(forMs, process, () => {
      for (let i = 0; i < 6; i++) clients.ask(quiet)
    })
    scheduler.pause(process, forMs)
    scheduler.runUntil(scheduler.nowMs + forMs - 25_000)
    for (const machine of others) ask(machine, 40, 20_000)
    scheduler.runUntil(scheduler.nowMs + 40_000)
  }

  #strike(fault: Fault): void {
    const { machines, scheduler } = this
    this.note('-', `fault ${JSON.stringify(fault)}`)
    if (fault.kind === 'isolate' || fault.kind === 'clock') {
      const hit = fault.machine === null ? machines : [machines[fault.machine]!]
      if (fault.kind === 'isolate') for (const { link } of hit) link.downUntilMs = scheduler.nowMs + fault.forMs
      else for (const clock of new Set(hit.map((machine) => machine.clock))) clock.skewMs += fault.byMs
      if (fault.kind === 'clock' && fault.machine === null) this.broker.skewMs += fault.byMs
      return
    }
    const machine = machines[fault.machine]!
    const { process, disk } = machine
    if (process === null) return
    if (fault.kind === 'pause') scheduler.pause(process, fault.forMs)
    else if (fault.kind === 'full') disk.faults.fullUntilMs = scheduler.nowMs + fault.forMs
    else if (fault.kind === 'sync_fails') disk.faults.failingSyncs = fault.times
    else if (fault.kind === 'kill') {
      this.#kill(machine, fault)
      if (fault.flips > 0) flipBits(this, machine, fault.flips)
    } else if (fault.kind === 'die') {
      disk.diesAfterChanges = fault.changes
      disk.onDeath = (dead) => this.#kill(machines.find(({ process: each }) => each === dead) ?? machine, fault)
    } else {
      scheduler.as(process, () => void machine.stop())
      this.#startAgain(machine, fault.forMs)
    }
  }

  #kill(machine: Machine, { power, forMs }: { power: boolean; forMs: number }): void {
    if (power) this.lostPower = true
    const others = power ? machine.together().filter((each) => each !== machine) : []
    for (const other of others) other.kill(false)
    machine.kill(power)
    for (const each of [machine, ...others]) this.#startAgain(each, forMs)
  }

  #startAgain(machine: Machine, afterMs: number): void {
    const start = () => {
      if (machine.process === null) this.#begunAgain(machine)
      else this.scheduler.after(500, NOBODY, start)
    }
    this.scheduler.after(afterMs, NOBODY, start)
  }

  #begunAgain(machine: Machine): void {
    const { scheduler, random, scenario, machines } = this
    machine.start()
    if (scenario.relapses === 0 || scheduler.nowMs >= scenario.activeMs || !random.chance(scenario.relapses)) return
    for (const fault of relapse(random, machines.indexOf(machine), machine.durability)) this.#strike(fault)
  }

  #heal(): void {
    const { broker, machines, scheduler } = this
    this.note('-', 'everything heals')
    broker.faults = { ...QUIET_NETWORK }
    for (const { link, disk, process } of machines) {
      link.downUntilMs = 0
      disk.diesAfterChanges = null
      Object.assign(disk.faults, { shortWrites: 0, fullUntilMs: 0, failingSyncs: 0, syncMs: 1 })
      if (process !== null) scheduler.resume(process)
    }
  }

  /** `isLast`: no process starts any more, so every spool is its process's own, or shipped and gone. */
  #drain(isLast = false): void {
    const { scheduler, machines } = this
    const untilMs = scheduler.nowMs + DRAIN_LIMIT_MS
    let quietSinceMs = scheduler.nowMs
    while (scheduler.nowMs < untilMs && scheduler.nowMs - quietSinceMs < QUIET_MS) {
      scheduler.runUntil(scheduler.nowMs + 500)
      const isQuiet = this.#isQuiet() && (!isLast || !this.hasLeftSpools)
      if (!isQuiet) quietSinceMs = scheduler.nowMs
    }
    if (scheduler.nowMs < untilMs) return
    for (const { name, gateway } of machines) {
      const left = gateway === null ? 'does not serve' : `${gateway.outcomes.spool.backlog().records} records unshipped`
      this.violated(`${name} is not drained after ${DRAIN_LIMIT_MS / 1_000} s: ${left}`)
    }
  }

  /** No requests come: what was held ahead of need goes back. */
  #idle(): void {
    if (this.widening === null) return
    this.scheduler.runUntil(this.scheduler.nowMs + IDLE_MS)
    checkIdle(this)
  }

  /** How all budgets stand, once each gateway has read what the others closed. */
  #ask(): void {
    if (this.widening === null) return
    this.scheduler.runUntil(this.scheduler.nowMs + READ_MS)
    this.said = standingsOf(this)
  }

  #isQuiet(): boolean {
    const alive = new Set(this.machines.map(({ process }) => process?.name))
    if (this.clients.underWay((process) => alive.has(process)) > 0) return false
    return this.machines.every(({ gateway }) => {
      if (gateway === null) return false
      const { outcomes, live, commits } = gateway
      return this.#isShipped(outcomes) && live.next === this.controlEnd && commits.status().waiting === 0
    })
  }

  /** Numbers that no record got, after a failure of the disk, are passed over with the next record. */
  #isShipped({ spool }: Outcomes): boolean {
    return spool.backlog().records === 0 || spool.status().rejected > 0
  }

  #stop(): void {
    const { machines, scheduler } = this
    const processes = machines.flatMap(({ process }) => process ?? [])
    for (const machine of machines) {
      const { process } = machine
      if (process !== null) scheduler.as(process, () => void machine.stop())
    }
    const isRunning = () => processes.some(({ alive }) => alive)
    if (!scheduler.runWhile(scheduler.nowMs + STOP_LIMIT_MS, isRunning))
      this.violated(`not stopped: ${processes.filter(({ alive }) => alive).map(({ name }) => name)}`)
  }
}

/** Everything that happens in a run follows from its seed. */
export const runSeed = (seed: number, options: RunOptions = {}): RunResult => new Run(seed, options).whole()

export const requestPartitions = (): number => PARTITIONS[TOPICS.requests.name]!
export const startedAtMs = EPOCH_MS
