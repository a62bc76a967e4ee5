// From the digest of a key to the slot of its entry: open addressing, at most half full, in two arrays of fixed size.

/** Bytes that a slot takes of the table, at most. */
export const TABLE_BYTES = 4 * 4 + 4

export class KeyTable {
  /** Slot plus one; 0: free. */
  readonly #slots: Int32Array
  /** The place in the table where each slot's search begins. */
  readonly #homes: Int32Array
  readonly #mask: number

  constructor(slots: number) {
    // The next power of two from twice as many on, which is less than four times as many.
    const size = 2 ** Math.ceil(Math.log2(Math.max(2, slots * 2 - 1)))
    this.#slots = new Int32Array(size)
    this.#homes = new Int32Array(slots)
    this.#mask = size - 1
  }

  /** The slot of a digest, or -1. `isSame`: whether a slot has exactly this digest. */
  find(digest: Uint8Array, isSame: (slot: number) => boolean): number {
    const home = this.#homeOf(digest)
    for (let at = home; this.#slots[at] !== 0; at = (at + 1) & this.#mask) {
      const slot = this.#slots[at]! - 1
      if (this.#homes[slot] === home && isSame(slot)) return slot
    }
    return -1
  }

  /** Adds a digest that is not in the table. */
  add(digest: Uint8Array, slot: number): void {
    const home = this.#homeOf(digest)
    this.#homes[slot] = home
    let at = home
    while (this.#slots[at] !== 0) at = (at + 1) & this.#mask
    this.#slots[at] = slot + 1
  }

  remove(digest: Uint8Array, slot: number): void {
    let hole = this.#homeOf(digest)
    while (this.#slots[hole] !== slot + 1) hole = (hole + 1) & this.#mask
    // Entries behind it move back, so that no search ends too early.
    for (let at = (hole + 1) & this.#mask; this.#slots[at] !== 0; at = (at + 1) & this.#mask) {
      const home = this.#homes[this.#slots[at]! - 1]!
      if (((at - home) & this.#mask) < ((at - hole) & this.#mask)) continue
      this.#slots[hole] = this.#slots[at]!
      hole = at
    }
    this.#slots[hole] = 0
  }

  /** Digests are evenly distributed: their first bytes are the hash. */
  #homeOf(digest: Uint8Array): number {
    return (digest[0]! | (digest[1]! << 8) | (digest[2]! << 16) | (digest[3]! << 24)) & this.#mask
  }
}
