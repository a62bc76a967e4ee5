// The health of every candidate as this process observes it: calls begin and end here, and frames are taken of it. No
// clock, no I/O: both are handed in.
import type { HealthEvent } from '../../domain/events/health.ts'
import type { Catalogue, CatalogueEntry } from '../port.ts'
import { BREAKER_DEFAULTS, type BreakerMove, type BreakerSettings } from './breaker.ts'
import { type CallWatch, HealthCall } from './call.ts'
import { CandidateHealth, type Probe, ProviderHealth, sameSignals } from './candidate.ts'
import { ejectOutliers } from './ejection.ts'
import { breakerEvent, probeEvent } from './events.ts'
import { type Frame, type Frames, type Signals, STILL, UNOBSERVED } from './frame.ts'
import { frameEvents, frameOf } from './frames.ts'
import { FALLBACKS, RetryBudget } from './retry-budget.ts'

// Which providers accept the usage option on a stream, by their responses to it: servers of one kind differ. In memory;
// a start tries again.

/** A refusal holds for so long; then the option is tried again, since the server may have been updated. */
const REFUSED_MS = 3_600_000
/** Beyond it the oldest are dropped, and learnt again. */
const MOST = 1_024

type Provider = Pick<CatalogueEntry, 'providerId' | 'baseUrl' | 'upstreamModel'>

interface Answer {
  readonly takes: boolean
  /** Monotonic. */
  readonly atMs: number
}

/** Another address, or another model, may lead to another server. */
const keyOf = ({ providerId, baseUrl, upstreamModel }: Provider): string => `${providerId} ${baseUrl} ${upstreamModel}`

export class UsageSupport {
  readonly #answers = new Map<string, Answer>()

  constructor(private readonly monotonicMs: () => number) {}

  /** Null: not tried yet, or refused long ago. */
  takes(provider: Provider): boolean | null {
    const answer = this.#answers.get(keyOf(provider))
    if (answer === undefined) return null
    return answer.takes || this.monotonicMs() - answer.atMs < REFUSED_MS ? answer.takes : null
  }

  answered(provider: Provider, takes: boolean): void {
    if (this.takes(provider) === takes) return
    const key = keyOf(provider)
    this.#answers.delete(key)
    this.#answers.set(key, { takes, atMs: this.monotonicMs() })
    if (this.#answers.size > MOST) this.#answers.delete(this.#answers.keys().next().value!)
  }
}

export interface HealthDeps {
  readonly catalogue: Pick<Catalogue, 'resolve' | 'all'>
  /** Unix milliseconds, for events. */
  nowMs(): number
  /** Never steps back: all durations are measured by it. */
  monotonicMs(): number
  /** Records an event. Must not throw and not wait. */
  emit(event: HealthEvent): void
}

/** Why a candidate is passed over: its breaker, a recent 429, or the bound of concurrent calls to its provider. */
export type Refusal = 'breaker_open' | 'cooling_down' | 'full'

const FRAME_MS = 1_000
const SWEEP_MS = 30_000
/** Bound of the candidates in memory: the oldest one without a call under way is dropped. */
const MAX_CANDIDATES = 4_096
/** Another instance repeats its open breakers every second. */
const WARNED_MS = 5_000

export const openHealth = (deps: HealthDeps): HealthBook => new HealthBook(deps)

export class HealthBook implements Frames, CallWatch {
  readonly #candidates = new Map<string, CandidateHealth>()
  readonly #providers = new Map<string, ProviderHealth>()
  readonly #fallbacks = new RetryBudget(FALLBACKS)
  #frame: Frame = STILL
  #rows: ReadonlyMap<string, Signals> = new Map()
  #takenMs = Number.NEGATIVE_INFINITY
  #sweptMs = Number.NEGATIVE_INFINITY
  /** The next time at which a breaker moves by time alone. */
  #dueMs = Number.POSITIVE_INFINITY
  #moved = false
  #restates = false
  #clearedMs = 0

  /** The responses of providers to the usage option on streams. */
  readonly usageSupport: UsageSupport

  constructor(readonly deps: HealthDeps) {
    this.usageSupport = new UsageSupport(deps.monotonicMs)
  }

  /**
   * Begins a call to this candidate, or returns why it must not be made. `force`: through an open breaker or a
   * cool-down, since there is no other candidate; never beyond the provider's concurrency. A begun call must be ended,
   * once or oftener: the first end counts.
   */
  begin(
    entry: CatalogueEntry,
    settings: BreakerSettings = BREAKER_DEFAULTS,
    force = false,
    further = false,
  ): HealthCall | Refusal {
    const nowMs = this.deps.monotonicMs()
    const candidate = this.#candidateOf(entry)
    const { breaker, provider } = candidate
    if (entry.maxConcurrency !== null && provider.inFlight >= entry.maxConcurrency) return 'full'
    if (nowMs >= breaker.dueMs) this.#elapse(candidate, nowMs)
    if (nowMs < candidate.coolUntilMs && !force) return 'cooling_down'
    const passage = breaker.pass() ?? (force ? 'forced' : null)
    if (passage === null) return 'breaker_open'
    if (!further) this.#fallbacks.first(nowMs)
    provider.retries.first(nowMs)
    return new HealthCall(this, candidate, settings, passage, nowMs)
  }

  /**
   * Whether the same candidate may be called again for the same request: its breaker is closed and the provider's retry
   * budget has room.
   */
  mayRepeat(entry: CatalogueEntry): boolean {
    const candidate = this.#candidateOf(entry)
    return candidate.breaker.state === 'closed' && candidate.provider.retries.take(this.deps.monotonicMs())
  }

  /** Whether a failed request may continue with another candidate. */
  mayFallBack(): boolean {
    return this.#fallbacks.take(this.deps.monotonicMs())
  }

  monotonicMs(): number {
    return this.deps.monotonicMs()
  }

  nowMs(): number {
    return this.deps.nowMs()
  }

  current(): Frame {
    this.tick()
    return this.#frame
  }

  /**
   * Makes the moves that depend on time alone, and renews the frame when it is due. `current()` does it too; a timer
   * calls it for an idle process.
   */
  tick(): void {
    const nowMs = this.deps.monotonicMs()
    if (nowMs >= this.#dueMs) {
      this.#dueMs = Number.POSITIVE_INFINITY
      for (const candidate of this.#candidates.values()) this.#elapse(candidate, nowMs)
    }
    if (this.#moved || (nowMs - this.#takenMs >= FRAME_MS && this.#candidates.size > 0)) this.#renew(nowMs)
  }

  /**
   * When breakers were last cleared, here or on another instance, Unix milliseconds; 0: never, as far as this instance
   * has read.
   */
  get clearedMs(): number {
    return this.#clearedMs
  }

  /**
   * Clears the breakers for an operator. Returns the time: later than every time before, whatever the clocks show, or
   * other instances would ignore it.
   */
  clearBreakers(): number {
    this.applyCleared(Math.max(this.deps.nowMs(), this.#clearedMs + 1))
    return this.#clearedMs
  }

  /** Drops breakers, cool-downs and ejections of all candidates, once for each time. True: this time is new. */
  applyCleared(atMs: number): boolean {
    if (atMs <= this.#clearedMs) return false
    this.#clearedMs = atMs
    const nowMs = this.deps.monotonicMs()
    for (const candidate of this.#candidates.values()) {
      candidate.coolUntilMs = candidate.ejectedUntilMs = Number.NEGATIVE_INFINITY
      candidate.ejections = 0
      this.moved(candidate, candidate.breaker.clear(nowMs))
    }
    this.#moved = true
    return true
  }

  /**
   * Other instances have these breakers open: for the next seconds one failure here opens them too. Unknown ids are
   * ignored.
   */
  warn(modelIds: Iterable<string>): void {
    const untilMs = this.deps.monotonicMs() + WARNED_MS
    for (const modelId of modelIds) {
      let candidate = this.#candidates.get(modelId)
      if (candidate === undefined) {
        const entry = this.deps.catalogue.all().find((each) => each.modelId === modelId)
        if (entry === undefined) continue
        candidate = this.#candidateOf(entry)
      }
      candidate.breaker.warn(untilMs)
    }
  }

  /** Model ids whose breakers are open here, at most `limit`. */
  openBreakers(limit: number): string[] {
    const open: string[] = []
    for (const { modelId, breaker } of this.#candidates.values()) {
      if (breaker.state === 'open' && open.push(modelId) === limit) break
    }
    return open
  }

  /** Records the result of a probe for the provider, and in the events for all readers. */
  probed(provider: { readonly id: string; readonly name: string }, probe: Probe): void {
    this.#providerOf(provider.id).probed(probe)
    this.deps.emit(probeEvent(provider, probe))
  }

  /** The mean feedback of each model, -1 to 1; models that are not listed have none. */
  feedback(means: ReadonlyMap<string, number>): void {
    for (const [modelId, candidate] of this.#candidates) candidate.feedback = means.get(modelId) ?? null
    for (const modelId of means.keys()) {
      if (this.#candidates.has(modelId)) continue
      const entry = this.deps.catalogue.all().find((each) => each.modelId === modelId)
      if (entry !== undefined) this.#candidateOf(entry).feedback = means.get(modelId)!
    }
  }

  provider(id: string): ProviderHealth | null {
    return this.#providers.get(id) ?? null
  }

  /** The present signals, not those of the newest frame. */
  signals(modelId: string): Signals {
    return this.#candidates.get(modelId)?.signals(this.deps.monotonicMs()) ?? UNOBSERVED
  }

  candidates(): IterableIterator<CandidateHealth> {
    return this.#candidates.values()
  }

  /** A breaker moved: the move is recorded, and the next plan includes it. */
  moved(candidate: CandidateHealth, move: BreakerMove | null): void {
    if (move === null) return
    this.#moved = true
    this.#dueMs = Math.min(this.#dueMs, candidate.breaker.dueMs)
    this.deps.emit(breakerEvent(candidate, move, this.deps.nowMs()))
  }

  /** A candidate cools down for long enough that the next plan should consider it. */
  cooled(): void {
    this.#moved = true
  }

  /**
   * The next tick takes a whole frame: some of the frames before it could not be written, so that later changes would
   * have no base.
   */
  restate(): void {
    this.#moved = true
    this.#restates = true
  }

  #elapse(candidate: CandidateHealth, nowMs: number): void {
    this.moved(candidate, candidate.breaker.elapse(nowMs))
    this.#dueMs = Math.min(this.#dueMs, candidate.breaker.dueMs)
  }

  #candidateOf(entry: CatalogueEntry): CandidateHealth {
    let candidate = this.#candidates.get(entry.modelId)
    if (candidate === undefined) {
      if (this.#candidates.size >= MAX_CANDIDATES) this.#dropOldest()
      candidate = new CandidateHealth(entry, this.#providerOf(entry.providerId))
      this.#candidates.set(entry.modelId, candidate)
    } else candidate.known(entry)
    return candidate
  }

  #providerOf(id: string): ProviderHealth {
    let provider = this.#providers.get(id)
    if (provider === undefined) {
      provider = new ProviderHealth(id)
      this.#providers.set(id, provider)
    }
    return provider
  }

  /** Drops the oldest candidate without a call under way. */
  #dropOldest(): void {
    for (const [modelId, { inFlight }] of this.#candidates) {
      if (inFlight > 0) continue
      this.#candidates.delete(modelId)
      return
    }
  }

  #renew(nowMs: number): void {
    this.#moved = false
    this.#takenMs = nowMs
    if (nowMs - this.#sweptMs >= SWEEP_MS) this.#sweep(nowMs)
    this.#eject(nowMs)
    const rows = new Map<string, Signals>()
    const changed = new Map<string, Signals>()
    for (const [modelId, candidate] of this.#candidates) {
      const signals = candidate.signals(nowMs)
      if (!sameSignals(signals, candidate.shown)) {
        candidate.shown = signals
        changed.set(modelId, signals)
      }
      if (candidate.shown !== UNOBSERVED) rows.set(modelId, candidate.shown)
    }
    // A dropped candidate has no observations from here on.
    for (const modelId of this.#rows.keys()) if (!rows.has(modelId)) changed.set(modelId, UNOBSERVED)
    if (changed.size === 0 && !this.#restates) return
    const restates = this.#restates
    this.#restates = false
    this.#rows = rows
    this.#frame = frameOf(this.#frame.number + 1, this.deps.nowMs(), rows)
    for (const event of frameEvents(this.#frame.number, this.#frame.atMs, rows, changed, restates))
      this.deps.emit(event)
  }

  /** Compares rows of models that serve the same name. */
  #eject(nowMs: number): void {
    const groups = new Map<string, CandidateHealth[]>()
    for (const candidate of this.#candidates.values()) {
      const word = candidate.model.toLowerCase()
      const group = groups.get(word)
      if (group === undefined) groups.set(word, [candidate])
      else group.push(candidate)
    }
    for (const [name, group] of groups) {
      const routable = this.deps.catalogue.resolve(name).filter(({ unroutable }) => unroutable === null).length
      ejectOutliers(group, routable, nowMs)
    }
  }

  /** Drops candidates that the registry no longer has. */
  #sweep(nowMs: number): void {
    this.#sweptMs = nowMs
    const entries = this.deps.catalogue.all()
    const models = new Set(entries.map(({ modelId }) => modelId))
    const providers = new Set(entries.map(({ providerId }) => providerId))
    for (const [id, { inFlight }] of this.#candidates)
      if (inFlight === 0 && !models.has(id)) this.#candidates.delete(id)
    for (const [id, { inFlight }] of this.#providers)
      if (inFlight === 0 && !providers.has(id)) this.#providers.delete(id)
  }
}
