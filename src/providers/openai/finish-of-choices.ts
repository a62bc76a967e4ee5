// Which choices of a stream have begun, and which of them have ended.
import { malformed } from '../shared/failure.ts'
import { objectOf, textOf } from '../shared/read-json.ts'

const MOST_CHOICES = 1_024

/** Which choices have begun, and which of them have their finish reason: with `n` above 1 they end one by one. */
export class FinishOfChoices {
  /** Of choice 0, which is the only one of nearly every stream: null before it has begun. */
  #first: boolean | null = null
  #others: Map<number, boolean> | null = null

  see(choices: readonly unknown[]): void {
    for (const value of choices) {
      const { index, finish_reason } = objectOf(value)
      this.seeOne(typeof index === 'number' ? index : 0, (textOf(finish_reason) ?? '') !== '')
    }
  }

  seeOne(index: number, ends: boolean): void {
    if (index === 0) {
      this.#first = ends || (this.#first ?? false)
      return
    }
    this.#others ??= new Map()
    if (this.#others.size >= MOST_CHOICES && !this.#others.has(index)) throw malformed('it has too many choices')
    if (ends || !this.#others.has(index)) this.#others.set(index, ends)
  }

  has(index: number): boolean {
    return index === 0 ? this.#first !== null : (this.#others?.has(index) ?? false)
  }

  allFinished(): boolean {
    if (this.#others === null) return this.#first === true
    for (const ends of this.#others.values()) if (!ends) return false
    return this.#first !== false
  }

  /** Those that have begun and have none, in the order of their indexes. */
  open(): number[] {
    const open = this.#first === false ? [0] : []
    for (const [index, ends] of this.#others ?? []) if (!ends) open.push(index)
    return open.sort((a, b) => a - b)
  }
}
