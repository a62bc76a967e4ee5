// Values that many rows share, each stored once under a number. Bounded; never removed.

const MOST_SHARED = 65_536
const MOST_SHARED_CHARACTERS = 256

export class SharedValues {
  readonly #values: unknown[] = [null, true, false]
  /** By the text, or by the JSON of other values. */
  readonly #texts = new Map<string, number>()
  readonly #others = new Map<string, number>()
  /** By identity: an object that was read from one row is often written into the next. */
  readonly #objects = new Map<unknown, number>()
  #lastPrefix = { text: '', number: -1 }

  at(number: number): unknown {
    return this.#values[number]
  }

  /** The number of null or of a boolean. */
  numberOfWord(value: boolean | null): number {
    return value === null ? 0 : value ? 1 : 2
  }

  /** Null when there is no room for another value. */
  numberOf(value: unknown): number | null {
    if (typeof value === 'string') return this.#texts.get(value) ?? this.#share(this.#texts, value, value)
    const number = this.#objects.get(value)
    if (number !== undefined) return number
    const json = JSON.stringify(value)
    return this.#others.get(json) ?? this.#shareOther(json)
  }

  /** The number of a text's beginning. */
  numberOfPrefix(text: string, length: number): number | null {
    const last = this.#lastPrefix
    if (last.number !== -1 && last.text.length === length && text.startsWith(last.text)) return last.number
    const prefix = text.slice(0, length)
    const number = this.numberOf(prefix)
    if (number !== null) this.#lastPrefix = { text: prefix, number }
    return number
  }

  #shareOther(json: string): number | null {
    const value: unknown = Object.freeze(JSON.parse(json))
    const number = this.#share(this.#others, json, value)
    if (number !== null && typeof value === 'object') this.#objects.set(value, number)
    return number
  }

  #share(numbers: Map<string, number>, text: string, value: unknown): number | null {
    if (this.#values.length === MOST_SHARED || text.length > MOST_SHARED_CHARACTERS) return null
    numbers.set(text, this.#values.length)
    return this.#values.push(value) - 1
  }
}
