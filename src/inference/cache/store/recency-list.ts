// Slots in the order of their last use, linked in arrays of fixed size.

/** Bytes that a slot takes of the list. */
export const RECENCY_BYTES = 2 * 4

export class RecencyList {
  /** Slot plus one of the neighbour that was used later, and earlier; 0: none. */
  readonly #newer: Int32Array
  readonly #older: Int32Array
  #newest = 0
  #oldest = 0
  /** First free slot plus one, linked by `#older`; 0: none. */
  #free = 0
  /** Slots from here on were never used. */
  #unused = 0
  #size = 0

  constructor(private readonly slotCount: number) {
    this.#newer = new Int32Array(slotCount)
    this.#older = new Int32Array(slotCount)
  }

  get size(): number {
    return this.#size
  }

  get isFull(): boolean {
    return this.#size === this.slotCount
  }

  /** The slot that was not used for the longest time; -1 when there is none. */
  get oldest(): number {
    return this.#oldest - 1
  }

  /** A new slot, used last. Only while it is not full. */
  add(): number {
    let slot: number
    if (this.#free === 0) slot = this.#unused++
    else {
      slot = this.#free - 1
      this.#free = this.#older[slot]!
    }
    this.#size++
    this.#link(slot)
    return slot
  }

  touch(slot: number): void {
    if (this.#newest === slot + 1) return
    this.#unlink(slot)
    this.#link(slot)
  }

  remove(slot: number): void {
    this.#unlink(slot)
    this.#older[slot] = this.#free
    this.#free = slot + 1
    this.#size--
  }

  /** The slots, the most recently used first. The given slot may be removed meanwhile. */
  *slots(): Generator<number> {
    for (let at = this.#newest; at !== 0; ) {
      const slot = at - 1
      at = this.#older[slot]!
      yield slot
    }
  }

  #link(slot: number): void {
    this.#newer[slot] = 0
    this.#older[slot] = this.#newest
    if (this.#newest !== 0) this.#newer[this.#newest - 1] = slot + 1
    this.#newest = slot + 1
    if (this.#oldest === 0) this.#oldest = slot + 1
  }

  #unlink(slot: number): void {
    const [newer, older] = [this.#newer[slot]!, this.#older[slot]!]
    if (newer === 0) this.#newest = older
    else this.#older[newer - 1] = older
    if (older === 0) this.#oldest = newer
    else this.#newer[older - 1] = newer
  }
}
