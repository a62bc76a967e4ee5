// Failed logins, by name and by address: five failures in 15 minutes lock for 15 minutes, then for twice as long, up to
// a day. Failures on other instances arrive by their announcements; memory is bounded.
import { type Static, t } from '../../lib/schema/schema.ts'

const FAILURES = 5
const WINDOW_MS = 900_000
const FIRST_LOCK_MS = 900_000
const LONGEST_LOCK_MS = 86_400_000
/** Without a failure for so long after a lockout, the next one counts as the first. */
const FORGIVEN_MS = 86_400_000
const MAX_SUBJECTS = 10_000
/** Number of entries that are checked for one to evict. */
const EVICTION_LOOK = 64
/** Bound of the announced failures: the announcement stays small. */
const MAX_ANNOUNCED = 64
/** How far in the future times of other instances may lie: clocks differ. */
const CLOCK_MS = 60_000

/** The failures of one subject on one instance. Times in Unix milliseconds. */
export const AnnouncedFailures = t.Object({
  subject: t.String({ minLength: 1, maxLength: 64, description: 'Keyed digest of a name or an address.' }),
  at_ms: t.Array(t.Integer(), { maxItems: FAILURES, description: 'Failures that it saw itself.' }),
  settled_ms: t.Integer({
    description: 'Failures up to here are settled: by a lockout, or a login that was right.',
  }),
  locked_until_ms: t.Integer({ description: 'When the lockout ends; 0 when there is none.' }),
  level: t.Integer({ minimum: 0, maximum: 64, description: 'How many lockouts there were in a row.' }),
})
export type AnnouncedFailures = Static<typeof AnnouncedFailures>
export const AnnouncedList = t.Array(AnnouncedFailures, { maxItems: MAX_ANNOUNCED })

interface Entry {
  own: number[]
  /** Failures that other instances announced, by instance; Unix milliseconds. */
  readonly others: Map<string, readonly number[]>
  settledMs: number
  lockedUntilMs: number
  /** Lockouts in a row. */
  level: number
  /** Attempts under way. */
  open: number
}

export interface Lockout {
  readonly subject: string
  readonly level: number
  readonly untilMs: number
}

export class FailedLogins {
  /** In the order of the last change. */
  readonly #entries = new Map<string, Entry>()

  get size(): number {
    return this.#entries.size
  }

  /** Until when one of these subjects is locked, or null when none is. */
  lockedUntil(subjects: readonly string[], nowMs: number): number | null {
    const untilMs = Math.max(0, ...subjects.map((subject) => this.#entries.get(subject)?.lockedUntilMs ?? 0))
    return untilMs > nowMs ? untilMs : null
  }

  /**
   * Begins an attempt. False when the attempts under way could already use up the remaining failures: repeat in a
   * moment.
   */
  begin(subjects: readonly string[], nowMs: number): boolean {
    const entries = subjects.map((subject) => this.#touch(subject, nowMs))
    if (entries.some((entry) => this.#failures(entry, nowMs) + entry.open >= FAILURES)) return false
    for (const entry of entries) entry.open += 1
    return true
  }

  /** Ends an attempt without a result: it does not count. */
  abandoned(subjects: readonly string[], nowMs: number): void {
    for (const subject of subjects) this.#end(subject, nowMs)
  }

  /** Ends an attempt that failed. Returns the subjects that are locked from now on. */
  failed(subjects: readonly string[], nowMs: number): Lockout[] {
    const locked: Lockout[] = []
    for (const subject of subjects) {
      const entry = this.#end(subject, nowMs)
      entry.own = [...entry.own.filter((atMs) => this.#counts(entry, atMs, nowMs)), nowMs].slice(-FAILURES)
      if (this.#failures(entry, nowMs) < FAILURES) continue
      if (nowMs - entry.lockedUntilMs > FORGIVEN_MS) entry.level = 0
      entry.level = Math.min(entry.level + 1, 64)
      entry.lockedUntilMs = nowMs + Math.min(FIRST_LOCK_MS * 2 ** (entry.level - 1), LONGEST_LOCK_MS)
      this.#settle(entry, nowMs)
      locked.push({ subject, level: entry.level, untilMs: entry.lockedUntilMs })
    }
    return locked
  }

  /**
   * Ends an attempt that succeeded. The count of its name restarts; that of its address does not, or one good account
   * would cover for guesses at others.
   */
  succeeded(subjects: readonly string[], name: string, nowMs: number): void {
    for (const subject of subjects) this.#end(subject, nowMs)
    const entry = this.#touch(name, nowMs)
    entry.level = 0
    this.#settle(entry, nowMs)
  }

  /** The failures to announce: the newest, at most 64. */
  announced(nowMs: number): AnnouncedFailures[] {
    const announced: AnnouncedFailures[] = []
    for (const [subject, entry] of [...this.#entries].reverse()) {
      const own = entry.own.filter((atMs) => this.#counts(entry, atMs, nowMs))
      const isNews = own.length > 0 || entry.lockedUntilMs > nowMs || entry.settledMs > nowMs - WINDOW_MS
      if (!isNews) continue
      const { settledMs, lockedUntilMs, level } = entry
      announced.push({ subject, at_ms: own, settled_ms: settledMs, locked_until_ms: lockedUntilMs, level })
      if (announced.length === MAX_ANNOUNCED) break
    }
    return announced
  }

  /** Merges the announced failures of another instance. */
  merge(instance: string, announced: readonly AnnouncedFailures[], nowMs: number): void {
    const latestMs = nowMs + CLOCK_MS
    for (const { subject, at_ms, settled_ms, locked_until_ms, level } of announced) {
      const entry = this.#touch(subject, nowMs)
      entry.settledMs = Math.max(entry.settledMs, Math.min(settled_ms, latestMs))
      const untilMs = Math.min(locked_until_ms, latestMs + LONGEST_LOCK_MS)
      if (untilMs > entry.lockedUntilMs) {
        entry.lockedUntilMs = untilMs
        entry.level = level
      }
      const counted = at_ms.filter((atMs) => this.#counts(entry, atMs, nowMs))
      if (counted.length > 0) entry.others.set(instance, counted)
      else entry.others.delete(instance)
    }
  }

  #counts(entry: Entry, atMs: number, nowMs: number): boolean {
    return atMs > entry.settledMs && atMs > nowMs - WINDOW_MS && atMs <= nowMs + CLOCK_MS
  }

  #failures(entry: Entry, nowMs: number): number {
    let count = 0
    for (const times of [entry.own, ...entry.others.values()])
      for (const atMs of times) if (this.#counts(entry, atMs, nowMs)) count += 1
    return count
  }

  #settle(entry: Entry, nowMs: number): void {
    entry.settledMs = nowMs
    entry.own = []
    entry.others.clear()
  }

  #end(subject: string, nowMs: number): Entry {
    const entry = this.#touch(subject, nowMs)
    entry.open = Math.max(0, entry.open - 1)
    return entry
  }

  #touch(subject: string, nowMs: number): Entry {
    const present = this.#entries.get(subject)
    const entry = present ?? { own: [], others: new Map(), settledMs: 0, lockedUntilMs: 0, level: 0, open: 0 }
    this.#entries.delete(subject)
    this.#entries.set(subject, entry)
    if (present === undefined && this.#entries.size > MAX_SUBJECTS) this.#evict(nowMs)
    return entry
  }

  /** Evicts the oldest, preferably one that is not locked and has no attempt under way. */
  #evict(nowMs: number): void {
    let looked = 0
    let oldest: string | null = null
    for (const [subject, { lockedUntilMs, open }] of this.#entries) {
      if (open === 0) {
        oldest ??= subject
        if (lockedUntilMs <= nowMs) {
          this.#entries.delete(subject)
          return
        }
      }
      if (++looked === EVICTION_LOOK) break
    }
    if (oldest !== null) this.#entries.delete(oldest)
  }
}
