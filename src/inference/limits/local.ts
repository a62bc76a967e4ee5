// Rate limits counted in this process: alone without Redis; beside Redis to know its own share when Redis is away.
import { BUCKETS, bucketOf, expiresInMs, SlidingWindow } from '../../lib/collections/sliding-window.ts'
import type { LimitRule } from '../../state/indexes/limit-rules.ts'
import type { Counted, Held, LimitRequest, LimitStore, Limits, LimitsStatus, Verdict } from './port.ts'

/** Bound of the counted subjects; about 1 KB each. */
const MAX_SUBJECTS = 50_000
/** When a request without a free slot, or without room to be counted, may be sent again. */
export const SLOT_RETRY_MS = 1_000

class Subject {
  requests: SlidingWindow | null = null
  tokens: SlidingWindow | null = null
  parallel = 0
  /** The newest bucket that was taken from. */
  newest = 0
}

export class LocalLimitStore implements LimitStore {
  readonly #subjects = new Map<string, Subject>()
  /** Subjects of the call under way; reused by the next one. */
  readonly #subjectsOfCall: Subject[] = []
  /**
   * The bucket of the last call, once for each rule: shared by all holds of that bucket, which saves an array for each
   * request.
   */
  #buckets: readonly number[] = []
  #sweptMs = Number.NEGATIVE_INFINITY

  /** `nowMs` never goes back. */
  constructor(
    private readonly nowMs: () => number,
    private readonly maxSubjects = MAX_SUBJECTS,
  ) {}

  get size(): number {
    return this.#subjects.size
  }

  take(request: LimitRequest): Verdict {
    const nowMs = this.nowMs()
    const subjects = this.#subjectsOf(request.rules, nowMs)
    if (subjects === null) {
      const counted = request.rules.map(() => ({ requests: 0, tokens: 0, resetMs: 0 }))
      return { admitted: false, rule: 0, limit: 'rpm', retryAfterMs: SLOT_RETRY_MS, counted }
    }
    const refusal = refusalOf(request, subjects, nowMs)
    if (refusal !== null) return { admitted: false, ...refusal, counted: countedOf(subjects, request.rules, nowMs) }
    const buckets = this.#add(request, subjects, nowMs)
    return { admitted: true, buckets, counted: countedOf(subjects, request.rules, nowMs) }
  }

  /** Counts a request that Redis admitted, whatever the limits. Null when there is no room to count it. */
  book(request: LimitRequest): readonly number[] | null {
    const nowMs = this.nowMs()
    const subjects = this.#subjectsOf(request.rules, nowMs)
    return subjects === null ? null : this.#add(request, subjects, nowMs)
  }

  settle({ rules, tokens: reserved }: LimitRequest, buckets: readonly number[] | null, tokensUsed: number): void {
    if (buckets === null) return
    const bucket = bucketOf(this.nowMs())
    for (let i = 0; i < rules.length; i++) {
      const { subject, tpm, maxParallel } = rules[i]!
      const counts = this.#subjects.get(subject)
      if (counts === undefined) continue // the subject was dropped: nothing counted any more
      if (maxParallel !== null) counts.parallel -= 1
      if (tpm === null || tokensUsed === reserved) continue
      const window = counts.tokens
      if (window === null) continue
      if (tokensUsed < reserved) window.refund(buckets[i]!, reserved - tokensUsed)
      else {
        counts.newest = window.advance(bucket)
        window.add(tokensUsed - reserved)
      }
    }
  }

  #add({ rules, tokens }: LimitRequest, subjects: readonly Subject[], nowMs: number): readonly number[] {
    const bucket = bucketOf(nowMs)
    for (let i = 0; i < subjects.length; i++) {
      const subject = subjects[i]!
      subject.requests?.add(1)
      if (rules[i]!.tpm !== null) subject.tokens!.add(tokens)
      if (rules[i]!.maxParallel !== null) subject.parallel += 1
      subject.newest = bucket
    }
    if (this.#buckets.length !== subjects.length || this.#buckets[0] !== bucket)
      this.#buckets = new Array<number>(subjects.length).fill(bucket)
    return this.#buckets
  }

  /** The subjects of each rule, counted as of now; valid until the next call. Null when there is no room for more. */
  #subjectsOf(rules: readonly LimitRule[], nowMs: number): readonly Subject[] | null {
    const bucket = bucketOf(nowMs)
    const found = this.#subjectsOfCall
    found.length = 0
    for (const rule of rules) {
      let subject = this.#subjects.get(rule.subject)
      if (subject === undefined) {
        if (!this.#hasRoom(nowMs)) return null
        subject = new Subject()
        subject.newest = bucket
        this.#subjects.set(rule.subject, subject)
      }
      if (rule.rpm !== null) subject.requests ??= new SlidingWindow()
      if (rule.tpm !== null) subject.tokens ??= new SlidingWindow()
      subject.requests?.advance(bucket)
      subject.tokens?.advance(bucket)
      found.push(subject)
    }
    return found
  }

  /** Drops subjects without counts when there are many; at most once a second. */
  #hasRoom(nowMs: number): boolean {
    if (this.#subjects.size < this.maxSubjects) return true
    if (nowMs - this.#sweptMs < SLOT_RETRY_MS) return false
    this.#sweptMs = nowMs
    const oldest = bucketOf(nowMs) - BUCKETS
    for (const [name, { parallel, newest }] of this.#subjects) {
      if (parallel === 0 && newest <= oldest) this.#subjects.delete(name)
    }
    return this.#subjects.size < this.maxSubjects
  }
}

type Refusal = Pick<Verdict & { admitted: false }, 'rule' | 'limit' | 'retryAfterMs'>

/** The limit that makes the request wait longest; null: it fits under all. */
const refusalOf = (
  { rules, tokens: needed }: LimitRequest,
  subjects: readonly Subject[],
  nowMs: number,
): Refusal | null => {
  let longest: Refusal | null = null
  for (let rule = 0; rule < subjects.length; rule++) {
    const { rpm, tpm, maxParallel } = rules[rule]!
    const { requests, tokens, parallel } = subjects[rule]!
    if (rpm !== null && requests!.total + 1 > rpm) {
      longest = later(longest, { rule, limit: 'rpm', retryAfterMs: requests!.waitMs(1, rpm, nowMs) })
    }
    if (tpm !== null && tokens!.total + needed > tpm) {
      longest = later(longest, { rule, limit: 'tpm', retryAfterMs: tokens!.waitMs(needed, tpm, nowMs) })
    }
    if (maxParallel !== null && parallel + 1 > maxParallel) {
      longest = later(longest, { rule, limit: 'max_parallel', retryAfterMs: SLOT_RETRY_MS })
    }
  }
  return longest
}

const later = (longest: Refusal | null, refusal: Refusal): Refusal =>
  longest === null || waitOf(refusal) > waitOf(longest) ? refusal : longest

const waitOf = ({ retryAfterMs }: Refusal): number => retryAfterMs ?? Number.POSITIVE_INFINITY

const countedOf = (subjects: readonly Subject[], rules: readonly LimitRule[], nowMs: number): Counted[] => {
  const all: Counted[] = []
  for (let i = 0; i < subjects.length; i++) {
    const { rpm, tpm } = rules[i]!
    const subject = subjects[i]!
    const requests = rpm === null ? 0 : subject.requests!.total
    const tokens = tpm === null ? 0 : subject.tokens!.total
    all.push({ requests, tokens, resetMs: requests + tokens === 0 ? 0 : expiresInMs(subject.newest, nowMs) })
  }
  return all
}

/**
 * The limits of a gateway without Redis: each process on its own. Takes without a promise (`bench -- tricks`, limits).
 */
export const processLimits = (nowMs: () => number): Limits => {
  const store = new LocalLimitStore(nowMs)
  const counts = { held: 0 }
  return {
    take(request): Held {
      const verdict = store.take(request)
      return verdict.admitted ? new LocalHeld(store, counts, request, verdict) : { verdict, settle: nothing }
    },
    status: (): LimitsStatus => ({ degraded: null, decidedAlone: 0, held: counts.held }),
  }
}

class LocalHeld implements Held {
  #settled = false

  constructor(
    private readonly store: LocalLimitStore,
    private readonly counts: { held: number },
    private readonly request: LimitRequest,
    readonly verdict: Verdict & { readonly admitted: true },
  ) {
    counts.held += 1
  }

  settle(tokensUsed: number): void {
    if (this.#settled) return
    this.#settled = true
    this.counts.held -= 1
    this.store.settle(this.request, this.verdict.buckets, tokensUsed)
  }
}

export const nothing = (): void => {
  // A refused request holds nothing; slots that are not given back expire.
}
