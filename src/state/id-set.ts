// A set of decision ids in 16 bytes each: the first 64 bits of each digest in an open-addressing table. Ids are digests, so a clash of
// 64 bits is not met by chance (1 in 10^7 at a million ids), and nobody without the MAC key can add one.

const EMPTY = 0n

export class IdSet {
  #slots: BigUint64Array
  #size = 0

  constructor(capacity = 1024) {
    this.#slots = new BigUint64Array(capacity)
  }

  get size(): number {
    return this.#size
  }

  has(idHex: string): boolean {
    const bits = bitsOf(idHex)
    const mask = this.#slots.length - 1
    for (let at = Number(bits & BigInt(mask)); ; at = (at + 1) & mask) {
      const slot = this.#slots[at]!
      if (slot === bits) return true
      if (slot === EMPTY) return false
    }
  }

  /** Adds an id of at least 16 hex digits; again and again is harmless. */
  add(idHex: string): void {
    if ((this.#size + 1) * 2 > this.#slots.length) this.#grow()
    if (place(this.#slots, bitsOf(idHex))) this.#size += 1
  }

  #grow(): void {
    const larger = new BigUint64Array(this.#slots.length * 2)
    for (const bits of this.#slots) if (bits !== EMPTY) place(larger, bits)
    this.#slots = larger
  }
}

const bitsOf = (idHex: string): bigint => BigInt(`0x${idHex.slice(0, 16)}`) || 1n

const place = (slots: BigUint64Array, bits: bigint): boolean => {
  const mask = slots.length - 1
  for (let at = Number(bits & BigInt(mask)); ; at = (at + 1) & mask) {
    if (slots[at] === bits) return false
    if (slots[at] === EMPTY) {
      slots[at] = bits
      return true
    }
  }
}
