// A cache whose entries differ in size: it is bounded by what they weigh together, not only by their number.

interface Entry<Value> {
  readonly value: Value
  readonly bytes: number
}

export class WeighedCache<Value> {
  /** Least recently used first. */
  readonly #entries = new Map<string, Entry<Value>>()
  #bytes = 0

  constructor(
    private readonly mostBytes: number,
    private readonly mostEntries: number,
  ) {}

  /** What all entries weigh together. */
  get bytes(): number {
    return this.#bytes
  }

  get(key: string): Value | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.value
  }

  /**
   * Adds a key that is not in the cache, in place of entries that were not used for longest. A value that weighs more
   * than the bound is not kept.
   */
  add(key: string, value: Value, bytes: number): void {
    if (bytes > this.mostBytes) return
    this.#entries.set(key, { value, bytes })
    this.#bytes += bytes
    for (const [oldest, entry] of this.#entries) {
      if (this.#entries.size <= this.mostEntries && this.#bytes <= this.mostBytes) break
      this.#entries.delete(oldest)
      this.#bytes -= entry.bytes
    }
  }

  /** Drops all entries; returns what they weighed. */
  clear(): number {
    const bytes = this.#bytes
    this.#entries.clear()
    this.#bytes = 0
    return bytes
  }
}
