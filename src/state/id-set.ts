// A set of decision ids in 16 bytes each: the first 64 bits of each digest in an open-addressing table. Ids are
// digests, so an accidental clash of 64 bits is negligible (1 in 10^7 at a million ids), and only owners of the MAC key
// can add one.

export class IdSet {
  /** Two words a slot; a free one holds two zeros. */
  #words: Uint32Array
  #size = 0

  constructor(capacity = 1024) {
    this.#words = new Uint32Array(capacity * 2)
  }

  get size(): number {
    return this.#size
  }

  has(idHex: string): boolean {
    const [high, low] = [wordOf(idHex, 0), wordOf(idHex, 8) || 1]
    return this.#words[slotOf(this.#words, high, low) + 1] !== 0
  }

  /** Adds an id of at least 16 hex digits; repeats are harmless. */
  add(idHex: string): void {
    if ((this.#size + 1) * 4 > this.#words.length) this.#grow()
    if (place(this.#words, wordOf(idHex, 0), wordOf(idHex, 8) || 1)) this.#size += 1
  }

  #grow(): void {
    const larger = new Uint32Array(this.#words.length * 2)
    for (let at = 0; at < this.#words.length; at += 2) {
      if (this.#words[at + 1] !== 0) place(larger, this.#words[at]!, this.#words[at + 1]!)
    }
    this.#words = larger
  }
}

/** Eight hex digits from that place on. */
const wordOf = (idHex: string, from: number): number => {
  let word = 0
  for (let at = from; at < from + 8; at++) {
    const code = idHex.charCodeAt(at)
    word = (word << 4) | ((code & 15) + (code >> 6) * 9) // a letter's code is 6 times 16 and one for `a`
  }
  return word >>> 0
}

/** The slot of the two words, or the free slot for them. The low one is never 0 in a slot that is taken. */
const slotOf = (words: Uint32Array, high: number, low: number): number => {
  const mask = words.length - 1
  for (let at = (low * 2) & mask; ; at = (at + 2) & mask) {
    if (words[at + 1] === 0 || (words[at] === high && words[at + 1] === low)) return at
  }
}

const place = (words: Uint32Array, high: number, low: number): boolean => {
  const at = slotOf(words, high, low)
  if (words[at + 1] !== 0) return false
  words[at] = high
  words[at + 1] = low
  return true
}
