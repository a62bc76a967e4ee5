// The frame: a numbered copy of all volatile inputs of a plan. A frame and the other inputs are enough to make the same
// plan again.

/**
 * Observations of one candidate, that is of one model of one provider. Numbers are null where there is no observation
 * yet.
 */
export interface Signals {
  /** `open`: not to be called (`breaker_open`). `half_open`: one trial may be made. */
  readonly breaker: 'closed' | 'open' | 'half_open'
  /** Taken out because it fails far more than its peers; ignored while too many of them are (the panic threshold). */
  readonly ejected: boolean
  /** Cooling down after a 429 of its own. */
  readonly coolingDown: boolean
  /** 0 (fails always) to 1. */
  readonly health: number
  readonly ttftMs: number | null
  readonly e2eMs: number | null
  readonly tokensPerSecond: number | null
  readonly inFlight: number
  /** Share of its rate limit that is left by its provider's report, 0 to 1. */
  readonly headroom: number | null
  /** Mean feedback, -1 to 1. */
  readonly feedback: number | null
}

export const UNOBSERVED: Signals = {
  breaker: 'closed',
  ejected: false,
  coolingDown: false,
  health: 1,
  ttftMs: null,
  e2eMs: null,
  tokensPerSecond: null,
  inFlight: 0,
  headroom: null,
  feedback: null,
}

export interface Frame {
  /** 0: there are no observations. Grows by one with each renewal, within one process. */
  readonly number: number
  readonly atMs: number
  /** Signals of a model by its id (a registry row belongs to one provider). Never throws; UNOBSERVED without a call. */
  signals(modelId: string): Signals
}

export interface Frames {
  /** The same object until it is renewed: at most once a second, and at once when a breaker moves. */
  current(): Frame
}

/** Without observations. */
export const STILL: Frame = { number: 0, atMs: 0, signals: () => UNOBSERVED }
