// Small numbers for names that many entries share, for as long as an entry has them.

export class NamePool {
  readonly #numbers = new Map<string, number>()
  readonly #names: (string | null)[] = []
  readonly #uses: number[] = []
  readonly #free: number[] = []

  /** Names in use. */
  get size(): number {
    return this.#numbers.size
  }

  /** The number of a name, from 1 on; 0 for none. Counts one use. */
  take(name: string | null): number {
    if (name === null) return 0
    let number = this.#numbers.get(name)
    if (number === undefined) {
      number = this.#free.pop() ?? this.#names.length + 1
      this.#numbers.set(name, number)
      this.#names[number - 1] = name
      this.#uses[number - 1] = 0
    }
    this.#uses[number - 1]! += 1
    return number
  }

  nameOf(number: number): string | null {
    return number === 0 ? null : (this.#names[number - 1] ?? null)
  }

  /** Ends one use of a number; a name without a use is forgotten. */
  release(number: number): void {
    if (number === 0) return
    const place = number - 1
    this.#uses[place]! -= 1
    if (this.#uses[place]! > 0) return
    this.#numbers.delete(this.#names[place]!)
    this.#names[place] = null
    this.#free.push(number)
  }
}
