// Numbers found by a hash: open addressing, hash and number side by side, in parts that grow each by itself so that no growth takes long.
// Different keys can have one hash: whoever looks says which number is meant.

const PARTS = 256
const FIRST_SLOTS = 16

interface Part {
  /** Two words a slot: the hash, and the number plus one; 0 there: free. */
  words: Uint32Array
  used: number
}

export class HashSlots {
  readonly #parts: (Part | undefined)[] = []

  /** The first number under this hash that is meant, or -1. */
  find(hash: number, isMeant: (number: number) => boolean): number {
    const part = this.#parts[hash >>> 24]
    if (part === undefined) return -1
    const { words } = part
    const mask = words.length - 1
    for (let at = (hash << 1) & mask; words[at + 1] !== 0; at = (at + 2) & mask) {
      if (words[at] === hash && isMeant(words[at + 1]! - 1)) return words[at + 1]! - 1
    }
    return -1
  }

  /** `hash`: 32 bits, unsigned. A number stands at most once under a hash. */
  add(hash: number, number: number): void {
    const known = this.#parts[hash >>> 24]
    const part = known ?? { words: new Uint32Array(FIRST_SLOTS * 2), used: 0 }
    if (known === undefined) {
      if (this.#parts.length === 0) this.#parts.length = PARTS
      this.#parts[hash >>> 24] = part
    }
    // Three quarters full at most.
    if ((part.used + 1) * 8 > part.words.length * 3) part.words = doubled(part.words)
    put(part.words, hash, number + 1)
    part.used += 1
  }

  remove(hash: number, number: number): void {
    const part = this.#parts[hash >>> 24]
    if (part === undefined) return
    const { words } = part
    const mask = words.length - 1
    for (let at = (hash << 1) & mask; words[at + 1] !== 0; at = (at + 2) & mask) {
      if (words[at] !== hash || words[at + 1] !== number + 1) continue
      close(words, at)
      part.used -= 1
      return
    }
  }
}

const put = (words: Uint32Array, hash: number, word: number): void => {
  const mask = words.length - 1
  let at = (hash << 1) & mask
  while (words[at + 1] !== 0) at = (at + 2) & mask
  words[at] = hash
  words[at + 1] = word
}

const doubled = (words: Uint32Array): Uint32Array => {
  const larger = new Uint32Array(words.length * 2)
  for (let at = 0; at < words.length; at += 2) if (words[at + 1] !== 0) put(larger, words[at]!, words[at + 1]!)
  return larger
}

/** Frees a slot and moves back what would no longer be found behind it. */
const close = (words: Uint32Array, slot: number): void => {
  const mask = words.length - 1
  let gap = slot
  for (let at = (slot + 2) & mask; words[at + 1] !== 0; at = (at + 2) & mask) {
    const home = (words[at]! << 1) & mask
    const stays = gap <= at ? gap < home && home <= at : gap < home || home <= at
    if (stays) continue
    words[gap] = words[at]!
    words[gap + 1] = words[at + 1]!
    gap = at
  }
  words[gap] = words[gap + 1] = 0
}
