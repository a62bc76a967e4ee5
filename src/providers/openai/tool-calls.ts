// Tool calls of streams of the OpenAI shape as a client folds them: each with an index of its own, its id and type
// once, its arguments as text.

import { hasLongNumber, parseExact } from '../../lib/json/exact-json.ts'
import { isObject } from '../../wire/json.ts'
import type { Reading } from '../port.ts'
import { callId } from '../shared/call-id.ts'
import { malformed } from '../shared/failure.ts'
import { arrayOf, type Json, objectOf, parseInnerJson, textOf } from '../shared/read-json.ts'

const MOST_CALLS = 1_024

const filled = (value: unknown): value is string => typeof value === 'string' && value !== ''
const wholeNumber = (value: unknown): number | null =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : null

/** Arguments as text; `empty` where there are none. */
export const argumentsText = (given: unknown, empty: string): string =>
  typeof given === 'string' ? given : given === undefined || given === null ? empty : JSON.stringify(given)

interface TrackedCall {
  readonly id: string | null
  readonly name: string
  /** Some of its arguments have come. */
  begun: boolean
  /** All of them came at once. */
  whole: boolean
}

/** Arguments that need no more: an object, as text or not. */
const isWhole = (given: unknown): boolean =>
  isObject(typeof given === 'string' && given.trimEnd().endsWith('}') ? parseInnerJson(given) : given)

/** The calls of one choice. */
class Calls {
  readonly #byId = new Map<string, number>()
  /**
   * The index that the upstream names -> the one that the client gets: an upstream that begins another call under the
   * same index means a new one.
   */
  readonly #byGiven = new Map<number, number>()
  readonly #tracked: TrackedCall[] = []
  #last = -1

  /** The call that the fragment belongs to, and the name that the call has so far; null: it begins one. */
  place(call: Json): { readonly index: number; readonly name: string | null } {
    const id = filled(call.id) ? call.id : null
    const named = objectOf(call.function ?? call.custom)
    const name = filled(named.name) ? named.name : ''
    const given = wholeNumber(call.index)
    const at = given === null ? this.#byIdOrLast(id, name !== '') : this.#atIndex(given, id, name)
    const index = at ?? this.#begin(id, name, given)
    this.#last = index
    this.#note(this.#tracked[index]!, named.arguments ?? named.input)
    return { index, name: at === null ? null : this.#tracked[index]!.name }
  }

  #begin(id: string | null, name: string, given: number | null): number {
    if (this.#tracked.length >= MOST_CALLS) throw malformed('it has too many tool calls')
    const index = this.#tracked.push({ id, name, begun: false, whole: false }) - 1
    if (id !== null) this.#byId.set(id, index)
    if (given !== null) this.#byGiven.set(given, index)
    return index
  }

  #note(tracked: TrackedCall, given: unknown): void {
    if (given === undefined || given === null || given === '') return
    tracked.whole = !tracked.begun && isWhole(given)
    tracked.begun = true
  }

  #byIdOrLast(id: string | null, named: boolean): number | null {
    if (id !== null) return this.#byId.get(id) ?? null
    return named || this.#last < 0 ? null : this.#last
  }

  #atIndex(given: number, id: string | null, name: string): number | null {
    const at = this.#byGiven.get(given)
    if (at === undefined) return null
    const tracked = this.#tracked[at]!
    // A new id alone is none: some servers make one for each fragment.
    if (name === '') return at
    if (id !== null) return tracked.id === id ? at : (this.#byId.get(id) ?? null)
    // Without an id: another name after arguments, or the same one after all of them, is another call.
    return tracked.begun && (tracked.whole || tracked.name !== name) ? null : at
  }
}

/** One for each stream. */
export class CallRepair {
  readonly #byChoice = new Map<number, Calls>()

  constructor(private readonly reading: Reading | undefined) {}

  /** The choice has a call. */
  has(choice: number): boolean {
    return this.#byChoice.has(choice)
  }

  /** The choices with calls in the form that clients expect; the same list when nothing had to be repaired. */
  repair(choices: readonly unknown[], data: string): readonly unknown[] {
    let changed = false
    const repaired = choices.map((value, place) => {
      const choice = objectOf(value)
      const delta = objectOf(choice.delta)
      if (!Array.isArray(delta.tool_calls) || delta.tool_calls.length === 0) return value
      const index = wholeNumber(choice.index) ?? 0
      const given = delta.tool_calls
      const calls = given.map((call: unknown, i) => this.#call(call, index, () => exactArguments(data, place, i)))
      if (calls.every((call, i) => call === given[i])) return value
      changed = true
      return { ...choice, delta: { ...delta, tool_calls: calls } }
    })
    return changed ? repaired : choices
  }

  #call(call: unknown, choice: number, exact: () => unknown): unknown {
    if (!isObject(call)) return call
    const calls = this.#byChoice.get(choice) ?? new Calls()
    this.#byChoice.set(choice, calls)
    const { index, name } = calls.place(call)
    const begins = name === null
    const right: Record<string, unknown> = { ...call, index }
    if (begins && !filled(call.id)) right.id = callId(this.reading, choice === 0 ? `${index}` : `${choice}_${index}`)
    if (begins && isObject(call.function) && !filled(call.type)) right.type = 'function'
    // Repeated, a client would concatenate it.
    if (!begins && filled(call.id)) delete right.id
    if (isObject(call.function)) {
      const { arguments: given, name: givenName, ...rest } = call.function
      const isText = given === undefined || typeof given === 'string'
      const isRepeated = !begins && filled(givenName) && givenName === name
      if (!isText || isRepeated)
        right.function = {
          ...(givenName === undefined || isRepeated ? {} : { name: givenName }),
          ...(given === undefined ? {} : { arguments: isText ? given : argumentsText(exact(), '') }),
          ...rest,
        }
    }
    return isSame(call, right) ? call : right
  }
}

const isSame = (one: Json, other: Json): boolean => {
  const names = Object.keys(other)
  return names.length === Object.keys(one).length && names.every((name) => one[name] === other[name])
}

/** Arguments that are no text, with the upstream's spelling of numbers. */
const exactArguments = (data: string, choice: number, call: number): unknown => {
  const { choices } = objectOf(hasLongNumber(data) ? parseExact(data) : JSON.parse(data))
  const { delta, message } = objectOf(arrayOf(choices)[choice])
  const { tool_calls: calls } = objectOf(delta ?? message)
  return objectOf(objectOf(arrayOf(calls)[call]).function).arguments
}

/** A call of a whole answer with its id, its type and its arguments as text; itself when it has them. */
export const wholeCall = (call: unknown, id: () => string): unknown => {
  if (!isObject(call) || !isObject(call.function)) return call
  const { arguments: given } = call.function
  if (filled(call.id) && filled(call.type) && typeof given === 'string') return call
  return {
    ...call,
    id: textOf(call.id) || id(),
    type: textOf(call.type) || 'function',
    function: { ...call.function, arguments: argumentsText(given, '{}') },
  }
}
