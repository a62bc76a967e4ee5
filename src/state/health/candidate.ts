// The observations of one process about one candidate (a model of one provider), and about its provider. Changed in
// place: calls begin and end here by the thousand.
import { MOST_PROBES } from '../../domain/events/health.ts'
import type { CatalogueEntry } from '../port.ts'
import { Breaker } from './breaker.ts'
import { type Signals, UNOBSERVED } from './frame.ts'
import { RETRIES, RetryBudget } from './retry-budget.ts'

/** The result of a probe. */
export interface Probe {
  /** Unix milliseconds. */
  readonly atMs: number
  readonly trigger: 'scheduled' | 'manual'
  readonly ok: boolean
  readonly latencyMs: number
  readonly errorCode: string | null
  readonly upstreamStatus: number | null
  readonly models: number | null
}

/** Weight of a new value in a moving mean. */
const NEWEST = 0.2
/** A tokens-per-second of fewer tokens than this is noise. */
const MIN_TOKENS = 8

export class ProviderHealth {
  inFlight = 0
  readonly retries = new RetryBudget(RETRIES)
  /** Newest last. */
  readonly probes: Probe[] = []
  failedProbes = 0
  /** Unix milliseconds of the last successful call, or null. */
  succeededAtMs: number | null = null
  latencyMs: number | null = null

  constructor(readonly id: string) {}

  probed(probe: Probe): void {
    if (this.probes.length === MOST_PROBES) this.probes.shift()
    this.probes.push(probe)
    this.failedProbes = probe.ok ? 0 : this.failedProbes + 1
  }

  /**
   * The factor of its probes on the health of each of its models: a quarter less for one failure, half for several in a
   * row.
   */
  get probeFactor(): number {
    return this.failedProbes === 0 ? 1 : this.failedProbes === 1 ? 0.75 : 0.5
  }
}

export class CandidateHealth {
  readonly breaker = new Breaker()
  readonly modelId: string
  #entry: CatalogueEntry
  inFlight = 0
  coolUntilMs = Number.NEGATIVE_INFINITY
  ejectedUntilMs = Number.NEGATIVE_INFINITY
  ejections = 0
  /** Its group is in a panic: ejections are ignored. */
  panic = false
  headroom: number | null = null
  headroomAtMs = Number.NEGATIVE_INFINITY
  feedback: number | null = null
  /** As the newest frame contains it. */
  shown: Signals = UNOBSERVED
  #ttftMs: number | null = null
  #e2eMs: number | null = null
  #tokensPerSecond: number | null = null

  constructor(
    entry: CatalogueEntry,
    readonly provider: ProviderHealth,
  ) {
    this.modelId = entry.modelId
    this.#entry = entry
  }

  /** Names of the present registry, not of the first call. */
  get model(): string {
    return this.#entry.name
  }

  get providerName(): string {
    return this.#entry.provider
  }

  known(entry: CatalogueEntry): void {
    this.#entry = entry
  }

  tookFirstToken(ms: number): void {
    this.#ttftMs = moved(this.#ttftMs, ms)
  }

  took(ms: number, ttftMs: number | null, completionTokens: number | null): void {
    this.#e2eMs = moved(this.#e2eMs, ms)
    const generatingMs = ms - (ttftMs ?? 0)
    if (completionTokens === null || completionTokens < MIN_TOKENS || generatingMs < 1) return
    this.#tokensPerSecond = moved(this.#tokensPerSecond, (completionTokens * 1_000) / generatingMs)
  }

  isEjected(nowMs: number): boolean {
    return nowMs < this.ejectedUntilMs
  }

  /** Rounded, so that a frame is recorded only for a change that matters; plans use the recorded values. */
  signals(nowMs: number): Signals {
    const { state, window } = this.breaker
    const failures = window.second(nowMs)
    const good = window.first(nowMs) - failures
    const health = ((good + 1) / (good + failures + 1)) * this.provider.probeFactor
    return {
      breaker: state,
      ejected: !this.panic && this.isEjected(nowMs),
      coolingDown: nowMs < this.coolUntilMs,
      health: state === 'open' ? 0 : hundredths(state === 'half_open' ? Math.min(0.5, health) : health),
      ttftMs: significant(this.#ttftMs),
      e2eMs: significant(this.#e2eMs),
      tokensPerSecond: significant(this.#tokensPerSecond),
      inFlight: this.inFlight,
      headroom: this.headroom === null ? null : hundredths(this.headroom),
      feedback: this.feedback === null ? null : hundredths(this.feedback),
    }
  }
}

const moved = (mean: number | null, value: number): number => (mean === null ? value : mean + NEWEST * (value - mean))

const hundredths = (value: number): number => Math.round(value * 100) / 100
const significant = (value: number | null): number | null => (value === null ? null : Number(value.toPrecision(2)))

export const sameSignals = (a: Signals, b: Signals): boolean =>
  a.breaker === b.breaker &&
  a.ejected === b.ejected &&
  a.coolingDown === b.coolingDown &&
  a.health === b.health &&
  a.ttftMs === b.ttftMs &&
  a.e2eMs === b.e2eMs &&
  a.tokensPerSecond === b.tokensPerSecond &&
  a.inFlight === b.inFlight &&
  a.headroom === b.headroom &&
  a.feedback === b.feedback
