// The commit queue: the only way to change the configuration. Waiting commands are chained into one append; of several
// instances that append at once the first in the log wins, and the others decide again.
import { Rejection } from '../../domain/kernel/rejection.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { type EventLog, LogUnavailable } from '../../log/port.ts'
import type { Condition } from '../condition.ts'
import { CONTROL } from '../fold.ts'
import type { LiveChain } from '../live-chain.ts'
import { type Commit, CommitFailure, type CommitRequest, type CommitResult } from '../port.ts'
import { TURN_AFTER_LOSSES } from '../write-turns.ts'
import { Appender } from './append.ts'
import { type Attempt, Batch, longestMs, resultOf, type Waiting } from './batch.ts'

// Batching: callers that just got a result are about to send the next command, so the first of these commands is not
// sent alone.

/** At most so long an append waits for as many commands as the last one carried. */
const BATCHING_MS = 2

export class Batching {
  #carried = 0

  constructor(readonly changed: Pick<Condition, 'until'>) {}

  carried(commands: number): void {
    this.#carried = commands
  }

  /**
   * Waits when fewer commands wait than the last append carried. True when it did: the state may have moved meanwhile.
   */
  async waited(waiting: () => number): Promise<boolean> {
    const expected = this.#carried
    if (waiting() >= expected) return false
    this.#carried = 0
    await this.changed.until(() => waiting() >= expected, BATCHING_MS)
    return true
  }
}

export interface CommitDeps {
  readonly log: EventLog
  readonly live: LiveChain
  /** `decisionMacKey` of the master key. */
  readonly macKey: Uint8Array
  readonly nowMs: () => number
  readonly diagnostics: Diagnostics
  /**
   * Name of this process for the others: part of its decisions and turns. Different for each process, also on one
   * machine.
   */
  readonly instance: string
  /** The time limit of a command. */
  readonly limitMs?: number
  /** After an append whose result was lost: how long the log is read forward before the command is decided again. */
  readonly lookMs?: number
  /** After an append that certainly did not happen: how long until the next try. */
  readonly retryMs?: number
}

export interface CommitQueue {
  readonly commit: Commit
  /** Commands under way, and appends that another instance beat, since the start. */
  status(): { readonly waiting: number; readonly losses: number; readonly turns: number }
  /**
   * Takes no more commands and waits so long (default: not at all) for those under way; then ends the rest with
   * CommitFailure and sends nothing more.
   */
  close(withinMs?: number): Promise<void>
}

const LIMIT_MS = 5_000
const MAX_WAITING = 4_096
const LOOK_MS = 300
const RETRY_MS = 100

export const createCommit = (deps: CommitDeps): CommitQueue => {
  const queue = new Queue(deps)
  return {
    commit: (request) => queue.add(request),
    status: () => ({ waiting: queue.waiting.length, losses: queue.losses, turns: queue.turns }),
    close: (withinMs = 0) => queue.close(withinMs),
  }
}

class Queue {
  waiting: Waiting[] = []
  losses = 0
  turns = 0
  #lossesInARow = 0
  /** Grows with every event that may let the next round make progress. */
  #version = 0
  /** Commands that are sent alone, after a batch was refused as too large. */
  #alone = 0
  #closing = false
  #closed = false
  readonly #appender: Appender
  readonly #batching: Batching
  readonly #open = new Map<string, Attempt>()
  readonly #unwatch: () => void
  readonly #running: Promise<void>

  constructor(readonly deps: CommitDeps) {
    this.#appender = new Appender(deps)
    this.#batching = new Batching(deps.live.condition)
    this.#unwatch = deps.live.watch((step) => {
      const attempt = step.kind === 'counts' ? this.#open.get(step.id) : undefined
      if (attempt !== undefined && step.kind === 'counts') attempt.folded = step.folded
    })
    this.#running = this.#run()
  }

  add(request: CommitRequest): Promise<CommitResult> {
    const { live, limitMs = LIMIT_MS } = this.deps
    if (this.#closing) return Promise.reject(new CommitFailure('stopping', 'the gateway is stopping'))
    const refusal = live.refusal()
    if (refusal !== null) return Promise.reject(new CommitFailure('refused', refusal))
    if (this.waiting.length >= MAX_WAITING)
      return Promise.reject(new CommitFailure('unavailable', 'too many changes are waiting; try again'))
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#expire(waiting), limitMs)
      const waiting: Waiting = {
        request,
        deadlineMs: performance.now() + limitMs,
        barrier: null,
        isRequestingBarrier: false,
        attempts: [],
        done: false,
        finish: (result) => {
          if (waiting.done) return
          waiting.done = true
          clearTimeout(timer)
          this.#forget(waiting, waiting.attempts)
          this.waiting = this.waiting.filter((other) => other !== waiting)
          if (result instanceof Error) reject(result)
          else resolve(result)
          if (this.#closing) this.#moved()
        },
      }
      this.waiting.push(waiting)
      this.#moved()
    })
  }

  async close(withinMs: number): Promise<void> {
    this.#closing = true
    await this.deps.live.condition.until(() => this.waiting.length === 0, withinMs)
    this.#closed = true
    for (const waiting of [...this.waiting]) this.#expire(waiting)
    this.#moved()
    await this.#running
    this.#unwatch()
  }

  /** The deadline of a command: attempts that were sent may still count. */
  #expire(waiting: Waiting): void {
    this.#settle(waiting)
    if (waiting.done) return
    const sent = waiting.attempts.length > 0
    this.#appender.stop(waiting.attempts)
    waiting.finish(
      sent
        ? new CommitFailure('unknown', 'the log did not confirm the change in time: it may or may not have happened')
        : new CommitFailure('unavailable', 'the log could not be written in time: nothing was changed'),
    )
    this.#moved()
  }

  #moved(): void {
    this.#version += 1
    this.deps.live.condition.notify()
  }

  async #run(): Promise<void> {
    const { live, diagnostics } = this.deps
    while (!this.#closed) {
      const { next } = live
      const version = this.#version
      const phase = live.status().phase
      try {
        if (this.waiting.length > 0 && (await this.#round())) continue
      } catch (error) {
        diagnostics.error('commit_round_failed', { error })
        for (const waiting of [...this.waiting]) this.#expire(waiting)
      }
      const moved = () =>
        this.#version !== version || live.next !== next || live.status().phase !== phase || this.#closed
      await live.condition.until(moved, 1_000)
    }
  }

  /** One round. True: another round may make progress at once. */
  async #round(): Promise<boolean> {
    const { live } = this.deps
    for (const waiting of [...this.waiting]) this.#settle(waiting)
    const { phase, chainId } = live.status()
    const chainless = phase === 'live' && chainId === null ? `${CONTROL} holds no chain yet` : null
    const refusal = live.refusal() ?? chainless
    if (refusal !== null) {
      for (const waiting of [...this.waiting]) {
        waiting.finish(new CommitFailure(waiting.attempts.length > 0 ? 'unknown' : 'refused', refusal))
      }
      return false
    }
    if (phase !== 'live') return false
    const holdMs = live.turns.holdMs(this.deps.instance)
    if (holdMs > 0) {
      await live.condition.until(() => live.turns.holdMs(this.deps.instance) === 0 || this.#closed, holdMs)
      return true
    }
    if (await this.#batching.waited(() => this.waiting.length)) return true
    const batch = this.#decide()
    if (batch.length === 0) this.#lossesInARow = 0 // no turn either: the others would hold their appends for nothing
    if (batch.length === 0) return false
    if (this.#lossesInARow >= TURN_AFTER_LOSSES) return this.#requestTurn(batch)
    this.#batching.carried(batch.length)
    await this.#send(batch)
    return true
  }

  /** Decides the waiting commands; ends those with a final result; returns the attempts to send. */
  #decide(): Attempt[] {
    const { live, macKey, nowMs, instance } = this.deps
    const { state, tip, logAtMs } = live
    const batch = new Batch({ state, tip, logAtMs, nowMs: nowMs(), macKey, instance })
    const limit = this.#alone > 0 ? 1 : Number.POSITIVE_INFINITY
    for (const waiting of [...this.waiting]) {
      if (batch.attempts.length >= limit) break
      if (waiting.deadlineMs <= performance.now()) continue // its timer is about to end it: nothing more is sent for it
      const clean = batch.attempts.length === 0
      const result = batch.decide(waiting.request)
      if (result === null) break
      if (result.kind === 'failed') waiting.finish(result.error)
      else if (result.kind === 'decision') {
        waiting.attempts.push(result.attempt)
        this.#open.set(result.attempt.id, result.attempt)
      } else if (clean) this.#finishIfFinal(waiting, result.result)
      // else: it rests on decisions that have not counted yet; it is decided again once they have
    }
    return batch.attempts
  }

  /**
   * Ends a command with a refusal or a no-op, unless the log may hold something newer than what it was decided on, or
   * an attempt of it may still count: on top of an attempt whose own time was over it may have been a no-op.
   */
  #finishIfFinal(waiting: Waiting, result: CommitResult | Rejection): void {
    if (waiting.attempts.some((attempt) => this.#mayCount(attempt))) return
    const repeated = !(result instanceof Rejection) && result.repeated
    if (repeated || (waiting.barrier !== null && this.deps.live.next >= waiting.barrier)) waiting.finish(result)
    else if (waiting.barrier === null && !waiting.isRequestingBarrier) void this.#requestBarrier(waiting)
  }

  async #requestBarrier(waiting: Waiting): Promise<void> {
    waiting.isRequestingBarrier = true
    try {
      waiting.barrier = await this.deps.live.requestEnd()
    } catch (error) {
      if (!(error instanceof LogUnavailable)) this.deps.diagnostics.warn('control_end_failed', { error })
      await Bun.sleep(this.deps.retryMs ?? RETRY_MS)
    }
    waiting.isRequestingBarrier = false
    this.#moved()
  }

  /** Checks the verdicts on the attempts of a command. */
  #settle(waiting: Waiting): void {
    const { live } = this.deps
    const counted = waiting.attempts.find(({ id }) => live.verdictOf(id) === 'counted')
    const dead = waiting.attempts.filter((attempt) => !this.#mayCount(attempt))
    if (counted === undefined) this.#forget(waiting, dead)
    else waiting.finish(resultOf(counted))
  }

  /** It is not folded yet, and the tip is still one on which it would count. */
  #mayCount({ id, base, before }: Attempt): boolean {
    const { live } = this.deps
    return live.verdictOf(id) === null && (live.tip === base || before.includes(live.tip))
  }

  #forget(waiting: Waiting, attempts: readonly Attempt[]): void {
    for (const { id } of attempts) this.#open.delete(id)
    waiting.attempts = waiting.attempts.filter((attempt) => !attempts.includes(attempt))
  }

  async #send(batch: readonly Attempt[]): Promise<void> {
    const { live } = this.deps
    const outcome = await this.#appender.append(batch)
    if (outcome === 'not_written') {
      this.#takeBack(batch)
      await live.condition.until(() => this.#closed, this.deps.retryMs ?? RETRY_MS)
      return
    }
    if (outcome === 'refused') {
      this.#refused(batch)
      return
    }
    if (this.#alone > 0) this.#alone -= 1
    const open = () => batch.some((attempt) => this.#open.has(attempt.id) && this.#mayCount(attempt))
    // Written: it will be folded. Unknown: read forward for a while, then decide again; at most one of the two can
    // count.
    const waitMs = outcome === 'written' ? longestMs(this.waiting) : (this.deps.lookMs ?? LOOK_MS)
    await live.condition.until(() => !open() || this.#closed || live.refusal() !== null, waitMs)
    if (batch.some(({ id }) => live.verdictOf(id) === 'counted')) this.#lossesInARow = 0
    else if (!open()) {
      this.losses += 1
      this.#lossesInARow += 1
    }
  }

  /** Certainly not in the log: treated as if it had never been sent. */
  #takeBack(batch: readonly Attempt[]): void {
    for (const waiting of this.waiting) {
      const sent = waiting.attempts.filter((attempt) => batch.includes(attempt))
      this.#forget(waiting, sent)
    }
  }

  #refused(batch: readonly Attempt[]): void {
    const senders = this.waiting.filter(({ attempts }) => attempts.some((attempt) => batch.includes(attempt)))
    this.#takeBack(batch)
    if (batch.length > 1) this.#alone = batch.length
    else {
      this.#alone = Math.max(0, this.#alone - 1)
      const error = new CommitFailure('too_large', 'the log refuses a record of this size')
      for (const sender of senders) sender.finish(error)
    }
  }

  async #requestTurn(batch: readonly Attempt[]): Promise<true> {
    this.#takeBack(batch)
    this.#lossesInARow = 0
    this.turns += 1
    await this.#appender.requestTurn(this.deps.lookMs ?? LOOK_MS)
    return true
  }
}
