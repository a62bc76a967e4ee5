// A hash table of 32-bit words: open addressing, hash and word side by side, in 256 parts that grow separately so that
// no growth takes long. Different keys may share a hash: the caller compares the keys. No word is 0.

const PARTS = 256
const FIRST_SLOTS = 8
const GROWTH = 1.5
const MOST_FULL = 0.8

interface Part {
  /** Two numbers a slot: the hash and the word; a word of 0 marks a free slot. */
  words: Uint32Array
  used: number
}

const NO_WORDS = new Uint32Array(2)

export class HashSlots {
  readonly #parts: (Part | undefined)[] = []
  /** Position of `first` and `next`: fields, since an iterator would be an object for each look-up. */
  #words: Uint32Array = NO_WORDS
  #at = 0
  #hash = 0

  /** The first word under this hash, or 0; `next` returns the others, until the table changes. */
  first(hash: number): number {
    this.#words = this.#parts[hash >>> 24]?.words ?? NO_WORDS
    this.#at = homeOf(this.#words, hash)
    this.#hash = hash
    return this.#seek()
  }

  next(): number {
    this.#at = after(this.#words, this.#at)
    return this.#seek()
  }

  #seek(): number {
    const words = this.#words
    for (let at = this.#at; words[at + 1] !== 0; at = after(words, at)) {
      if (words[at] !== this.#hash) continue
      this.#at = at
      return words[at + 1]!
    }
    return 0
  }

  /** `hash`, `word`: 32 bits, unsigned. A word occurs at most once under a hash. */
  add(hash: number, word: number): void {
    if (this.#parts.length === 0) this.#parts.length = PARTS
    const part = this.#parts[hash >>> 24] ?? { words: new Uint32Array(FIRST_SLOTS * 2), used: 0 }
    this.#parts[hash >>> 24] = part
    if ((part.used + 1) * 2 > part.words.length * MOST_FULL) part.words = grown(part.words)
    put(part.words, hash, word)
    part.used += 1
  }

  /** Replaces a word by another one. */
  replace(hash: number, word: number, by: number): void {
    for (let met = this.first(hash); met !== 0; met = this.next()) {
      if (met !== word) continue
      this.#words[this.#at + 1] = by
      return
    }
  }

  remove(hash: number, word: number): void {
    const part = this.#parts[hash >>> 24]
    if (part === undefined) return
    const { words } = part
    for (let at = homeOf(words, hash); words[at + 1] !== 0; at = after(words, at)) {
      if (words[at] !== hash || words[at + 1] !== word) continue
      close(words, at)
      part.used -= 1
      return
    }
  }
}

const homeOf = (words: Uint32Array, hash: number): number => (hash % (words.length / 2)) * 2

const after = (words: Uint32Array, at: number): number => (at + 2 === words.length ? 0 : at + 2)

const put = (words: Uint32Array, hash: number, word: number): void => {
  let at = homeOf(words, hash)
  while (words[at + 1] !== 0) at = after(words, at)
  words[at] = hash
  words[at + 1] = word
}

const grown = (words: Uint32Array): Uint32Array => {
  const larger = new Uint32Array(Math.ceil((words.length / 2) * GROWTH) * 2)
  for (let at = 0; at < words.length; at += 2) if (words[at + 1] !== 0) put(larger, words[at]!, words[at + 1]!)
  return larger
}

/** Frees a slot and moves back the entries that would no longer be found behind it. */
const close = (words: Uint32Array, slot: number): void => {
  let gap = slot
  for (let at = after(words, slot); words[at + 1] !== 0; at = after(words, at)) {
    const home = homeOf(words, words[at]!)
    const stays = gap <= at ? gap < home && home <= at : gap < home || home <= at
    if (stays) continue
    words[gap] = words[at]!
    words[gap + 1] = words[at + 1]!
    gap = at
  }
  words[gap] = words[gap + 1] = 0
}
