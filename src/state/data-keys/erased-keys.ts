// Ids of data keys that were erased. A tombstone is final: a rotation that had not seen it may write the key once more behind it.

/** More are not remembered: the sweep finds what no row refers to. */
const MAX_ERASED = 10_000

export class ErasedKeys {
  /** `sent`: its tombstone was written here and not read so far; what is read until then came before it. */
  readonly #ids = new Map<string, 'sent' | 'read'>()

  sent(keyId: string): void {
    this.#put(keyId, 'sent')
  }

  read(keyId: string): void {
    this.#put(keyId, 'read')
  }

  /** `before`: this record of the key is older than its tombstone. `after`: it is newer, and to be erased again. Null: it was never erased. */
  order(keyId: string): 'before' | 'after' | null {
    const state = this.#ids.get(keyId)
    return state === undefined ? null : state === 'sent' ? 'before' : 'after'
  }

  #put(keyId: string, state: 'sent' | 'read'): void {
    this.#ids.delete(keyId)
    this.#ids.set(keyId, state)
    if (this.#ids.size <= MAX_ERASED) return
    const [oldest] = this.#ids.keys()
    this.#ids.delete(oldest!)
  }
}
