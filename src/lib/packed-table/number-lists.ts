// Lists of numbers by key, for keys with many numbers: doubly linked, so that a number is removed in one step.

const FIRST_CAPACITY = 64

export class NumberLists {
  /** Last number of a list, plus one, by key. */
  readonly #heads = new Map<string, number>()
  /** Neighbours of a number in its list, plus one; 0: none. */
  #older = new Uint32Array(FIRST_CAPACITY)
  #newer = new Uint32Array(FIRST_CAPACITY)

  /** A number is in at most one list. */
  add(key: string, number: number): void {
    if (number >= this.#older.length) this.#grow(number)
    const head = this.#heads.get(key) ?? 0
    this.#older[number] = head
    this.#newer[number] = 0
    if (head !== 0) this.#newer[head - 1] = number + 1
    this.#heads.set(key, number + 1)
  }

  remove(key: string, number: number): void {
    const [older, newer] = [this.#older[number]!, this.#newer[number]!]
    if (older !== 0) this.#newer[older - 1] = newer
    if (newer !== 0) this.#older[newer - 1] = older
    else if (older !== 0) this.#heads.set(key, older)
    else this.#heads.delete(key)
  }

  /** The numbers of a key, newest first. */
  of(key: string): number[] {
    const numbers: number[] = []
    for (let at = this.#heads.get(key) ?? 0; at !== 0; at = this.#older[at - 1]!) numbers.push(at - 1)
    return numbers
  }

  #grow(number: number): void {
    const capacity = Math.max(number + 1, this.#older.length * 2)
    const [older, newer] = [new Uint32Array(capacity), new Uint32Array(capacity)]
    older.set(this.#older)
    newer.set(this.#newer)
    this.#older = older
    this.#newer = newer
  }
}
