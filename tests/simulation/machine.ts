// A simulated machine and the gateway process on it: put together by the composition of production
// (`src/composition/outcomes.ts`, `budgets.ts`), with the disk, the log and the randomness of the run. The sender runs
// beside it instead of in a thread.
import { type BudgetParts, openBudgetParts } from '../../src/composition/budgets.ts'
import { type Outcomes, openOutcomes } from '../../src/composition/outcomes.ts'
import { type Config, loadConfig } from '../../src/config/schema.ts'
import { sleep } from '../../src/lib/event-loop/sleep.ts'
import type { Diagnostics } from '../../src/lib/process/diagnostics.ts'
import type { EventLog } from '../../src/log/port.ts'
import { type ShipProgress, shipSpool } from '../../src/log/sender/ship.ts'
import type { Sender, SenderOptions } from '../../src/log/sender/thread.ts'
import { type CommitQueue, createCommit } from '../../src/state/commit/queue.ts'
import { liveFrom } from '../../src/state/live/live.ts'
import type { LiveChain } from '../../src/state/live-chain.ts'
import { withStoredRecords } from '../../src/state/restore/stored-tail.ts'
import { macKey } from '../state/support.ts'
import type { Link } from './broker.ts'
import { SimulatedDisk } from './disk.ts'
import type { Run } from './run.ts'
import type { Owner } from './scheduler.ts'
import { loaded, type Snapshot, snapshotOf } from './snapshots.ts'
import { StoredTail } from './stored.ts'

export type Durability = 'process' | 'host' | 'log'

const MASTER_KEY = Buffer.alloc(32, 7).toString('base64')
const CONFIGS = new Map<string, Config>()

/** As a file of settings would have it. */
const configOf = (durability: Durability, dir: string): Config => {
  const name = `${durability} ${dir}`
  const known = CONFIGS.get(name)
  if (known !== undefined) return known
  const text =
    `log:\n  durability: ${durability}\n  kafka:\n    brokers: ["simulated:9092"]\n` +
    `data:\n  dir: ${dir}\nsecurity:\n  master_key: ${MASTER_KEY}\n`
  const { config } = loadConfig({ file: { name: 'simulation', text }, env: {} })
  CONFIGS.set(name, config)
  return config
}

/** One start of the gateway on a machine. */
export interface Gateway {
  readonly process: Owner
  readonly outcomes: Outcomes
  readonly live: LiveChain
  readonly commits: CommitQueue
  readonly budgetParts: BudgetParts
  /** Decisions that this process has counted, in its order. */
  readonly counted: string[]
}

/** The control state as a process had it in the end. */
export interface Final {
  readonly next: number
  readonly tip: string
  readonly digest: string
  readonly degraded: string | null
}

export class Machine {
  readonly disk: SimulatedDisk
  readonly link: Link
  readonly clock: { skewMs: number }
  /** Of the first process of its data folder. */
  readonly dataDir: string
  /** Null while no process runs. */
  process: Owner | null = null
  /** Null until it serves. */
  gateway: Gateway | null = null
  /** How the control state stood when the last process stopped in order. */
  final: Final | null = null
  /** What was counted by each of its processes, behind how many decisions of its snapshot. */
  readonly histories: { readonly after: number; readonly counted: readonly string[] }[] = []
  /** Of its data folder. */
  readonly snapshots: { newest: Snapshot | null }
  /** Of its data folder: what it holds of the chain behind the snapshot. */
  readonly stored: StoredTail
  #starts = 0

  constructor(
    readonly name: string,
    readonly durability: Durability,
    private readonly run: Run,
    /** It is a further process on this one, in the same data folder. */
    readonly beside: Machine | null,
  ) {
    const { scheduler, random } = run
    this.disk = beside?.disk ?? new SimulatedDisk({ scheduler, random, note: (what) => run.note(name, what) })
    this.link = beside?.link ?? { downUntilMs: 0 }
    this.clock = beside?.clock ?? { skewMs: 0 }
    this.snapshots = beside?.snapshots ?? { newest: null }
    this.stored = beside?.stored ?? new StoredTail(() => scheduler.nowMs)
    this.dataDir = beside?.dataDir ?? `/${name}`
  }

  /** Of its data folder. */
  spools(): string[] {
    const { disk, dataDir } = this
    if (!disk.has(`${dataDir}/spool`)) return []
    return disk
      .list(`${dataDir}/spool`)
      .filter((name) => /^\d+$/.test(name))
      .map((name) => `${dataDir}/spool/${name}`)
  }

  /**
   * Starts a process where none runs (another event may have started it meanwhile). It serves once it has read the log.
   */
  start(): void {
    const { run, name } = this
    if (this.process !== null) return
    const process: Owner = {
      name: `${name}.${++this.#starts}`,
      alive: true,
      pausedUntilMs: 0,
      held: [],
      machine: this.clock,
    }
    this.process = process
    this.final = null
    run.note(process.name, 'starts')
    run.scheduler.as(process, () => {
      void this.#open(process).catch((error: unknown) => {
        if (process.alive) run.violated(`${process.name} does not start: ${String(error)}`)
      })
    })
  }

  /** Ends the process at once. `power`: the machine with it; the caller has then ended all other processes on it. */
  kill(power: boolean): void {
    const { process } = this
    if (process === null) return
    this.run.note(process.name, power ? 'loses power' : 'is killed')
    process.alive = false
    this.disk.diesAfterChanges = null
    this.disk.released(process)
    this.process = null
    this.gateway = null
    this.run.clients.died(process.name)
    if (!power) return
    this.disk.powerCut()
    this.stored.powerCut()
  }

  /** What the snapshot thread of its data folder does now and then, and when it stops. */
  writeSnapshot(): void {
    const { gateway, snapshots, beside, run } = this
    if (gateway === null || beside !== null || !run.scenario.snapshots) return
    if (gateway.live.status().phase !== 'live') return
    snapshots.newest = snapshotOf(gateway.live)
    run.note(gateway.process.name, `writes a snapshot of ${gateway.live.next} records`)
  }

  /** The running processes of the same machine. */
  together(): Machine[] {
    return this.run.machines.filter(({ disk, process }) => disk === this.disk && process !== null)
  }

  /** Stops in order, as SIGTERM does. */
  async stop(): Promise<void> {
    const { gateway } = this
    if (gateway === null) return
    this.run.note(gateway.process.name, 'stops')
    this.writeSnapshot()
    this.gateway = null
    const { outcomes, live, commits, budgetParts, process } = gateway
    const { offset, tip, digest, degraded } = live.status()
    this.final = { next: offset, tip, digest, degraded }
    await budgetParts.close()
    await outcomes.stop()
    await commits.close()
    await live.close()
    await outcomes.spool.close()
    this.run.note(process.name, 'has stopped')
    process.alive = false
    this.disk.released(process)
    if (this.process === process) this.process = null
  }

  async #open(process: Owner): Promise<void> {
    const { run, dataDir, disk, durability } = this
    const { random, broker } = run
    const diagnostics = this.#diagnosticsOf(process)
    const connect = () => broker.connect(process, this.link)
    const newEpoch = () => random.hex(16)
    // Of this machine: what it was to do ends with it.
    const atEnd = (task: () => void) => void setImmediate(task)
    const outcomes = await openOutcomes(configOf(durability, dataDir), diagnostics, {
      spool: { files: disk.filesOf(process), newEpoch, atEnd, segmentBytes: run.segmentBytes, ballastBytes: 16_384 },
      startSender: (options) => new SenderBeside(options, connect(), disk, process),
    })
    const { instance } = outcomes.spool
    const log = connect()
    const { newest } = this.snapshots
    const { records, next } = this.stored
    const start = run.scenario.snapshots ? await withStoredRecords(loaded(newest), records, macKey) : loaded(null)
    const live = liveFrom({ ...{ log, macKey, dataDir: null, nowMs: Date.now, diagnostics, endMayLag: true } }, start, {
      chainId: null,
      position: null,
      confirmedAtMs: null,
    })
    if (newest !== null) run.note(process.name, `has a snapshot of ${newest.next} records, and stored ${next}`)
    if (this.beside === null) this.stored.follow(live, () => process.alive)
    const commits = createCommit({ log, live, macKey, nowMs: Date.now, diagnostics, instance })
    const ports = { log: connect(), newEpoch, silenceMs: run.silenceMs }
    const budgetParts = openBudgetParts(configOf(durability, dataDir), { live }, outcomes, diagnostics, ports)
    const counted: string[] = []
    this.histories.push({ after: start.start?.counts.counted ?? 0, counted })
    live.watch((step) => {
      if (step.kind === 'counts' && process.alive) counted.push(step.id)
    })
    outcomes.start(live, { adopt: this.beside === null, recover: budgetParts.recover })
    await live.ready()
    if (!process.alive) return
    run.note(process.name, `serves at ${live.next}`)
    if (run.scenario.snapshots && live.next < next)
      run.violated(
        `${process.name} serves ${live.next} records, and its folder has stored ${next}: it forgets the rest`,
      )
    this.gateway = { process, outcomes, live, commits, budgetParts, counted }
  }

  #diagnosticsOf({ name }: Owner): Diagnostics {
    const say =
      (level: string) =>
      (event: string, fields: Readonly<Record<string, unknown>> = {}) => {
        const text = Object.entries(fields).map(
          ([key, value]) => `${key}=${value instanceof Error ? value.message : value}`,
        )
        this.run.note(name, `${level} ${event} ${text.join(' ')}`)
      }
    return { debug() {}, info: say('info'), warn: say('warn'), error: say('error') }
  }
}

/** How often it looks by itself, and after a failure. */
const LOOK_MS = 5_000
const AFTER_FAILURE_MS = 1_000

/** The sender of `log/sender/worker.ts`, without the thread. */
class SenderBeside implements Sender {
  readonly #stopping = new AbortController()
  readonly #progress = new Map<string, ShipProgress>()
  readonly #loops: Promise<unknown>[] = []
  #bell: () => void = () => {}
  #rang = false

  constructor(
    private readonly options: SenderOptions,
    private readonly log: EventLog,
    private readonly disk: SimulatedDisk,
    private readonly process: Owner,
  ) {
    this.#loops.push(this.#run(options.spool, false))
  }

  wake(): void {
    this.#rang = true
    this.#bell()
  }

  drain(adopted: SenderOptions['spool'], isOver = Promise.resolve(true)): void {
    const drained = async () => {
      if (!(await this.#run(adopted, true))) return
      this.#progress.delete(adopted.directory)
      await adopted.close({ remove: await isOver })
    }
    this.#loops.push(drained().catch((error: unknown) => this.options.onProblem?.(String(error))))
  }

  status() {
    const spools = [...this.#progress.values()]
    return { spools, problem: spools.find(({ problem }) => problem !== null)?.problem ?? null, restarts: 0 }
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    this.wake()
    await Promise.all(this.#loops)
    await this.log.close()
  }

  /** False: stopped before all was shipped. */
  async #run(spool: SenderOptions['spool'], drain: boolean): Promise<boolean> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      try {
        return await shipSpool({
          ...{ directory: spool.directory, drain, log: this.log, targets: this.options.targets, signal },
          afterSync: this.options.afterSync,
          gatherMs: this.options.gatherMs,
          files: this.disk.filesOf(this.process),
          nowMs: Date.now,
          more: () => this.#more(signal),
          onProgress: (progress) => {
            this.#progress.set(progress.directory, progress)
            spool.shipped(progress.record)
          },
        })
      } catch (error) {
        this.options.onProblem?.(String(error))
        await sleep(AFTER_FAILURE_MS, signal)
      }
    }
    return false
  }

  /** Until the bell rings, or for a while. */
  async #more(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#bell = resolve
    if (!this.#rang) {
      const timer = setTimeout(resolve, LOOK_MS)
      await promise
      clearTimeout(timer)
    }
    this.#rang = signal.aborted
  }
}
