// A map from whole numbers for entries that come and go thousands of times a second. Why no `Map`: `index-set.ts`.

/** A power of two, as all sizes. */
const FEWEST_SLOTS = 64
const EMPTY = -1

/**
 * Open addressing with linear probing, at most half full. Keys are whole numbers from 0 on. They are hashed, since
 * consecutive keys would form one long run, which each removal walks.
 */
export class IntegerMap<Value> {
  #keys = emptyKeys(FEWEST_SLOTS)
  #values: (Value | undefined)[] = new Array(FEWEST_SLOTS).fill(undefined)
  #size = 0

  get size(): number {
    return this.#size
  }

  get(key: number): Value | undefined {
    return this.#values[this.#slotOf(key)]
  }

  /** Replaces the value of a present key. */
  set(key: number, value: Value): void {
    if (this.#size * 2 >= this.#keys.length) this.#grow()
    const slot = this.#slotOf(key)
    if (this.#keys[slot] === EMPTY) this.#size++
    this.#keys[slot] = key
    this.#values[slot] = value
  }

  /** The removed value. */
  delete(key: number): Value | undefined {
    const slot = this.#slotOf(key)
    const value = this.#values[slot]
    if (this.#keys[slot] === EMPTY) return undefined
    this.#size--
    this.#close(slot)
    return value
  }

  /** In no order. */
  entries(): [number, Value][] {
    const found: [number, Value][] = []
    for (let slot = 0; slot < this.#keys.length; slot++)
      if (this.#keys[slot] !== EMPTY) found.push([this.#keys[slot]!, this.#values[slot]!])
    return found
  }

  /** The slot of the key, or the empty slot where it belongs. */
  #slotOf(key: number): number {
    const mask = this.#keys.length - 1
    let slot = scattered(key) & mask
    while (this.#keys[slot] !== key && this.#keys[slot] !== EMPTY) slot = (slot + 1) & mask
    return slot
  }

  /** Empties a slot and moves the entries behind it back, so that no search ends too early. */
  #close(from: number): void {
    const mask = this.#keys.length - 1
    let hole = from
    for (let slot = (hole + 1) & mask; this.#keys[slot] !== EMPTY; slot = (slot + 1) & mask) {
      // The entry may move unless its home slot lies between the hole and its present slot.
      if (((slot - scattered(this.#keys[slot]!)) & mask) < ((slot - hole) & mask)) continue
      this.#keys[hole] = this.#keys[slot]!
      this.#values[hole] = this.#values[slot]
      hole = slot
    }
    this.#keys[hole] = EMPTY
    this.#values[hole] = undefined
  }

  #grow(): void {
    const entries = this.entries()
    const slots = this.#keys.length * 2
    this.#keys = emptyKeys(slots)
    this.#values = new Array(slots).fill(undefined)
    this.#size = 0
    for (const [key, value] of entries) this.set(key, value)
  }
}

const scattered = (key: number): number => {
  const mixed = Math.imul(key, 0x9e3779b1)
  return mixed ^ (mixed >>> 16)
}

const emptyKeys = (slots: number): Float64Array => new Float64Array(slots).fill(EMPTY)
