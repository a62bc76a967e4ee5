// A cache keyed by digests in hex digits: a table of fixed size with four ways a set, in which a new entry replaces the
// oldest one of its set. A map that grows and is cleared costs more than it saves. Its gain is in `bench -- keys`.

const SETS = 4_096
const WAYS = 4
/**
 * Digits of which the fingerprint is made: entries with another fingerprint are passed over without comparing texts.
 */
const PRINT_DIGITS = 7

/** Entries at most. With half as many in use hardly any entry is replaced. */
export const MAX_CACHED_DIGESTS = SETS * WAYS

export class DigestCache<Value extends object> {
  readonly #prints = new Int32Array(MAX_CACHED_DIGESTS)
  readonly #digests: (string | null)[] = new Array(MAX_CACHED_DIGESTS).fill(null)
  readonly #values: (Value | null)[] = new Array(MAX_CACHED_DIGESTS).fill(null)

  get(digest: string): Value | null {
    const at = this.#find(digest)
    return at === -1 ? null : this.#values[at]!
  }

  /** Adds a digest that is not in the cache. */
  add(digest: string, value: Value): void {
    const print = printOf(digest)
    const first = firstOf(print)
    for (let at = first + WAYS - 1; at > first; at--)
      this.#put(at, this.#prints[at - 1]!, this.#digests[at - 1]!, this.#values[at - 1]!)
    this.#put(first, print, digest, value)
  }

  delete(digest: string): void {
    const at = this.#find(digest)
    if (at !== -1) this.#put(at, 0, null, null)
  }

  clear(): void {
    this.#prints.fill(0)
    this.#digests.fill(null)
    this.#values.fill(null)
  }

  #find(digest: string): number {
    const print = printOf(digest)
    const first = firstOf(print)
    for (let at = first; at < first + WAYS; at++)
      if (this.#prints[at] === print && this.#digests[at] === digest) return at
    return -1
  }

  #put(at: number, print: number, digest: string | null, value: Value | null): void {
    this.#prints[at] = print
    this.#digests[at] = digest
    this.#values[at] = value
  }
}

/** Defined for any text; evenly distributed for digests. */
const printOf = (digest: string): number => {
  let print = 0
  for (let at = 0; at < PRINT_DIGITS; at++) {
    const code = digest.charCodeAt(at)
    // The code of a letter is 6 * 16 + 1 for `a`.
    print = (print << 4) | ((code & 15) + (code >> 6) * 9)
  }
  return print
}

const firstOf = (print: number): number => (print & (SETS - 1)) * WAYS
