// The live instances, and how far each has folded: announced to and read from `gateway.instances.v1`.
// `X-Gateway-Applied-By`, schema activation and the alarm for diverging states depend on it.
import { EVENT_VERSION, FOLD_VERSION } from '../../domain/control.ts'
import { sleep } from '../../lib/event-loop/sleep.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { Value } from '../../lib/schema/schema.ts'
import { readEnvelope, writeEnvelope } from '../../log/envelope.ts'
import { type EventLog, LogUnavailable } from '../../log/port.ts'
import { TOPICS } from '../../log/topics.ts'
import { Condition } from '../../state/condition.ts'
import type { LiveChain } from '../../state/live-chain.ts'
import type { StoredRecords } from '../../state/restore/record-keeper.ts'
import { type AnnouncementPorts, announcedNow, applyAnnouncement } from './gossip.ts'
import { InstanceAnnounced } from './instance-announced.ts'
import { Namesake } from './namesake.ts'
import { OwnClock, type OwnClockDeps } from './own-clock.ts'
import { PeerInstances } from './peers.ts'
import { StateHistory } from './state-history.ts'
import { isAwaited, isUrgent } from './urgent.ts'

const INSTANCES = TOPICS.instances.name
const EVERY_MS = 1_000
/** A decision that is not urgent is announced with others of this time. */
const GATHER_MS = 50
/** Decisions whose responses wait, as many as are remembered. */
const MAX_AWAITED = 1_024
/** Another instance had folded a record so long ago and this one has not: this one is behind. */
const BEHIND_MS = 2_000
const MAX_ALARMS_SHOWN = 4
/** So long a response waits until this instance has stored what it has folded. */
const STORED_WAIT_MS = 250

export interface InstancesDeps extends AnnouncementPorts, Pick<OwnClockDeps, 'clock' | 'clockMs'> {
  readonly log: EventLog
  readonly live: LiveChain
  readonly instance: string
  readonly build: string
  readonly nowMs: () => number
  readonly diagnostics: Diagnostics
  /** How far the records are stored in the data folder; absent: this process does not store them. */
  readonly stored?: Pick<StoredRecords, 'next' | 'onAdvance'>
  /** The process started then, Unix milliseconds. */
  readonly startedAtMs?: number
  readonly everyMs?: number
  readonly behindMs?: number
  readonly liveMs?: number
}

/** How many of the live instances have it, this one among them. */
export interface AppliedBy {
  readonly applied: number
  readonly instances: number
}

export interface Instances {
  /**
   * This one first, then the others whose announcements were read within the last seconds in which this one could read.
   */
  list(): readonly InstanceAnnounced[]
  /**
   * Whether the response to that decision waits until all instances have applied it: it issues, revokes, rotates or
   * narrows a key, opens or ends a session, makes or changes an operator, kills or overrides.
   */
  awaited(revision: string): boolean
  /**
   * How many of the live instances have folded that decision, and stored it where they store; waits until all have, or
   * for the time given.
   */
  appliedBy(revision: string, waitMs: number): Promise<AppliedBy>
  /**
   * Announces at once that breakers were cleared here at that time (Unix milliseconds), and returns how many instances
   * have cleared them; waits likewise.
   */
  clearedBy(atMs: number, waitMs: number): Promise<AppliedBy>
  /** Not null: other instances had another state at the same offset of the chain. */
  alarm(): string | null
  /** Not null: another process announces itself under the name of this one. */
  nameShared(): string | null
  /** Not null: the clock of this process differs from the one of the log. */
  clockProblem(): string | null
  /** The live instances, as they stand; this one first. */
  standings(): readonly InstanceStanding[]
  /** Not null: another instance has folded for some seconds what this one has not. */
  behind(): string | null
  /** Counts of instances and of records, for metrics. */
  counts(): InstanceCounts
  /** Requests an announcement, together with changes of the next moments. */
  scheduleAnnouncement(): void
  close(): Promise<void>
}

export interface InstanceCounts {
  /** Live ones, with this one. */
  readonly live: number
  /** Of those, how many have another state than this one. */
  readonly diverged: number
  /** Records that the farthest other one has folded and this one has not, for `BEHIND_MS` or longer. */
  readonly behindRecords: number
  /** 1: another process announces itself under the name of this one. */
  readonly nameShared: number
  /** How far the clock of this process runs ahead of the one of the log; 0 also where that is not measured. */
  readonly clockAheadMs: number
}

export interface InstanceStanding {
  readonly announced: InstanceAnnounced
  /** Records of the control topic that the farthest instance has folded and this one has not. */
  readonly lagRecords: number
  /** When its announcement was read, by the clock of this process. */
  readonly heardAtMs: number
}

/** Announces and listens until it is closed. Open it when the live state is ready. */
export const openInstances = (deps: InstancesDeps): Instances => new Announcements(deps)

class Announcements implements Instances {
  readonly #epoch = crypto.randomUUID()
  readonly #others: PeerInstances
  readonly #history: StateHistory
  readonly #changed = new Condition()
  readonly #closing = new AbortController()
  readonly #stops: (() => void)[]
  readonly #work: Promise<unknown>
  /** The first announcement is read as well: it shows how far the clock is from the log's. */
  readonly #listening = Promise.withResolvers<void>()
  #sequence = 0
  readonly #awaited = new Set<string>()
  readonly #namesake = new Namesake(() => performance.now())
  readonly #clock: OwnClock
  /** An urgent decision before this offset is folded here and not stored yet; 0: none is. */
  #urgentNext = 0
  /** Instance -> the offset at which its state was another one. */
  readonly #diverged = new Map<string, number>()
  /** The first offset that another one had reached before this one, and when its announcement was read. */
  #ahead: { readonly offset: number; readonly receivedAtMs: number } | null = null
  /** The next announcement is due at this time (monotonic); null: not before the second is over. */
  #dueAtMs: number | null = null
  #announcedAtMs = Number.NEGATIVE_INFINITY

  constructor(readonly deps: InstancesDeps) {
    this.#others = new PeerInstances((name) => this.#diverged.delete(name), deps.liveMs)
    this.#history = new StateHistory(deps.live)
    this.#clock = new OwnClock(deps)
    deps.stored?.onAdvance(() => this.#stored(deps.stored!.next))
    this.#stops = [
      deps.live.watch((step) => {
        if (step.kind !== 'counts') return
        this.#history.note()
        if (step.folded.changes.some(isAwaited)) this.#await(step.id)
        const urgent = step.folded.changes.some(isUrgent)
        if (urgent) this.#urgentNext = deps.live.next
        this.#due(urgent ? 0 : GATHER_MS)
      }),
    ]
    this.#work = Promise.all([this.#announceForEver(), this.#listen()])
  }

  list(): readonly InstanceAnnounced[] {
    return [this.#self(), ...this.#others.live()]
  }

  awaited(revision: string): boolean {
    return this.#awaited.has(revision)
  }

  async appliedBy(revision: string, waitMs: number): Promise<AppliedBy> {
    const { live, stored } = this.deps
    const offset = live.offsetOf(revision)
    const isStored = (next = Number.POSITIVE_INFINITY) => offset === undefined || next > offset
    const has = ({ tip, ...announced }: InstanceAnnounced) =>
      isStored(announced.stored) &&
      (tip === revision || (offset === undefined ? announced.offset >= live.next : announced.offset > offset))
    await this.#changed.until(() => isStored(stored?.next) || this.#closing.signal.aborted, STORED_WAIT_MS)
    return await this.#until(has, waitMs)
  }

  /** Urgent decisions are announced again once they are stored: a caller waits for that. */
  #stored(next: number): void {
    const isUrgentStored = this.#urgentNext > 0 && next >= this.#urgentNext
    if (isUrgentStored) this.#urgentNext = 0
    this.#due(isUrgentStored ? 0 : GATHER_MS)
    this.#changed.notify()
  }

  clearedBy(atMs: number, waitMs: number): Promise<AppliedBy> {
    this.#due(0)
    return this.#until(({ breakers_cleared_ms: clearedMs = 0 }) => clearedMs >= atMs, waitMs)
  }

  async #until(has: (announced: InstanceAnnounced) => boolean, waitMs: number): Promise<AppliedBy> {
    const applied = () => this.list().filter(has).length
    await this.#changed.until(() => applied() === this.list().length || this.#closing.signal.aborted, waitMs)
    return { applied: applied(), instances: this.list().length }
  }

  alarm(): string | null {
    this.#others.live() // a dead instance is no alarm
    if (this.#diverged.size === 0) return null
    const shown = [...this.#diverged].slice(0, MAX_ALARMS_SHOWN).map(([name, offset]) => `${name} at offset ${offset}`)
    const more = this.#diverged.size > MAX_ALARMS_SHOWN ? ` and ${this.#diverged.size - MAX_ALARMS_SHOWN} more` : ''
    return `another state of the control topic than this one has: ${shown.join(', ')}${more}`
  }

  behind(): string | null {
    const { behindRecords } = this.counts()
    return behindRecords === 0 ? null : `this instance is ${behindRecords} records of the control topic behind another`
  }

  nameShared(): string | null {
    if (!this.#namesake.isAlive) return null
    return (
      `another process announces itself as ${this.deps.instance}: data.dir was copied, and both spend from the same ` +
      'leases of budgets; stop one of them, and start it with an empty data.dir'
    )
  }

  clockProblem(): string | null {
    return this.#clock.problem()
  }

  standings(): readonly InstanceStanding[] {
    const nowMs = performance.now()
    const self = { announced: this.#self(), receivedAtMs: nowMs }
    const all = [self, ...this.#others.heard()]
    const farthest = Math.max(...all.map(({ announced }) => announced.offset))
    return all.map(({ announced, receivedAtMs }) => ({
      announced,
      lagRecords: farthest - announced.offset,
      heardAtMs: this.deps.nowMs() - (nowMs - receivedAtMs),
    }))
  }

  counts(): InstanceCounts {
    const others = this.#others.live()
    const { next } = this.deps.live
    if (this.#ahead !== null && this.#ahead.offset <= next) this.#ahead = null
    const late =
      this.#ahead !== null && performance.now() - this.#ahead.receivedAtMs > (this.deps.behindMs ?? BEHIND_MS)
    const farthest = Math.max(next, this.#ahead?.offset ?? 0, ...others.map(({ offset }) => offset))
    return {
      live: others.length + 1,
      diverged: this.#diverged.size,
      behindRecords: late ? farthest - next : 0,
      nameShared: this.#namesake.isAlive ? 1 : 0,
      clockAheadMs: this.#clock.aheadMs,
    }
  }

  async close(): Promise<void> {
    this.#closing.abort()
    for (const stop of this.#stops) stop()
    this.#changed.notify()
    await this.#work
  }

  #self(): InstanceAnnounced {
    const { live, instance, build, stored, startedAtMs } = this.deps
    const { offset, tip, digest, degraded } = live.status()
    return {
      instance,
      offset,
      tip,
      digest,
      fold_version: FOLD_VERSION,
      event_version: EVENT_VERSION,
      build,
      degraded,
      ...(stored === undefined ? {} : { stored: stored.next }),
      ...(startedAtMs === undefined ? {} : { started_at: new Date(startedAtMs).toISOString() }),
      clock_ahead_ms: this.#clock.aheadMs,
      ...announcedNow(this.deps),
    }
  }

  scheduleAnnouncement(): void {
    this.#due(GATHER_MS)
  }

  #due(inMs: number): void {
    if (this.#others.live().length === 0) return // no other instance waits for it
    const atMs = performance.now() + inMs
    if (this.#dueAtMs !== null && this.#dueAtMs <= atMs) return
    this.#dueAtMs = atMs
    this.#changed.notify()
  }

  async #announceForEver(): Promise<void> {
    const { everyMs = EVERY_MS, diagnostics, log, instance, nowMs } = this.deps
    const { signal } = this.#closing
    await this.#listening.promise
    while (!signal.aborted) {
      const nextAtMs = () => Math.min(this.#dueAtMs ?? Number.POSITIVE_INFINITY, this.#announcedAtMs + everyMs)
      while (!signal.aborted && nextAtMs() > performance.now()) {
        const before = this.#dueAtMs
        const waitMs = nextAtMs() - performance.now()
        await this.#changed.until(() => this.#dueAtMs !== before || signal.aborted, waitMs)
      }
      if (signal.aborted) return
      this.#dueAtMs = null
      this.#announcedAtMs = performance.now()
      try {
        const data = JSON.stringify(this.#self())
        const origin = { instance, epoch: this.#epoch, sequence: this.#sequence++ }
        this.#clock.sends(origin.sequence)
        const value = Buffer.from(writeEnvelope(origin, 'instance.announced', instance, nowMs(), data))
        await log.append(
          INSTANCES,
          0,
          [{ key: instance, value }],
          AbortSignal.any([signal, AbortSignal.timeout(2_000)]),
        )
      } catch (error) {
        // The next one comes in a second; a lost one costs only freshness.
        if (!signal.aborted) diagnostics.debug('announcement_failed', { error })
      }
    }
  }

  async #listen(): Promise<void> {
    const { log, diagnostics } = this.deps
    const { signal } = this.#closing
    while (!signal.aborted) {
      try {
        const end = await log.end(INSTANCES, 0).finally(() => this.#listening.resolve())
        for await (const batch of log.read(INSTANCES, 0, end, signal)) {
          for (const { value, atMs } of batch) this.#receive(value, atMs)
          this.#changed.notify()
        }
      } catch (error) {
        if (!(error instanceof LogUnavailable) && !signal.aborted) diagnostics.warn('instances_read_failed', { error })
        await sleep(500, signal)
      }
    }
  }

  #receive(value: Uint8Array | null, logAtMs: number): void {
    const envelope = value === null ? null : readEnvelope(value)
    const announced = envelope?.data
    if (envelope === null || !Value.Check(InstanceAnnounced, announced)) return
    if (announced.instance === this.deps.instance) {
      if (envelope.epoch === this.#epoch) this.#clock.received(envelope.sequence, logAtMs)
      else this.#receiveNamesake(envelope.epoch)
      return void this.#others.receiveOwn()
    }
    const standing = this.#others.receive(announced)
    if (standing === 'too many') return
    // it has no announcement of this one yet
    if (applyAnnouncement(this.deps, announced) || standing === 'new') this.#due(0)
    this.#measure(announced)
    this.#compare(announced)
  }

  #receiveNamesake(epoch: string): void {
    if (!this.#namesake.heard(epoch)) return
    const { diagnostics, instance } = this.deps
    diagnostics.error('instance_name_shared', { instance, advice: 'start a copy of a data folder only alone' })
  }

  /** How far it is ahead of this one. */
  #measure({ offset }: InstanceAnnounced): void {
    const { next } = this.deps.live
    if (this.#ahead !== null && this.#ahead.offset <= next) this.#ahead = null
    if (this.#ahead === null && offset > next) this.#ahead = { offset, receivedAtMs: performance.now() }
  }

  #compare({ instance, offset, digest, fold_version, degraded }: InstanceAnnounced): void {
    if (fold_version !== FOLD_VERSION || degraded !== null || this.deps.live.refusal() !== null) return
    const ours = this.#history.digestAt(offset)
    if (ours === null) return
    if (ours === digest) this.#diverged.delete(instance)
    else {
      if (!this.#diverged.has(instance))
        this.deps.diagnostics.error('states_differ', { instance, offset, ours, theirs: digest })
      this.#diverged.set(instance, offset)
    }
  }

  #await(revision: string): void {
    this.#awaited.add(revision)
    if (this.#awaited.size <= MAX_AWAITED) return
    for (const oldest of this.#awaited) {
      this.#awaited.delete(oldest)
      break
    }
  }
}
