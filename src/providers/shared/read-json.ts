// Reads JSON of upstreams: loosely, only the fields that are used, never an exception for an unexpected value.
import { parseExact, parseInner, parseInnerExact } from '../../lib/json/exact-json.ts'
import { isObject } from '../../wire/json.ts'

export type Json = Readonly<Record<string, unknown>>

const NO_MEMBERS: Json = Object.freeze({})
const NO_ITEMS: readonly unknown[] = []
export const objectOf = (value: unknown): Json => (isObject(value) ? value : NO_MEMBERS)
export const arrayOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : NO_ITEMS)
export const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)
/** No answer has so many tokens: a larger number is a mistake, and its price would be one too. */
const MAX_COUNT = 10_000_000_000
/** A number of tokens: a whole number from 0 to 10^10, else null (absent and 0 are different things). */
export const countOf = (value: unknown): number | null =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_COUNT ? value : null

/** Undefined when the text is no JSON. The text is a body or an event, whose bounds were checked when it came. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // the caller says what a text that is no JSON means to it
  }
}

/** As parseJson, for a text that stands in another: one that exceeds a bound is undefined too. */
export const parseInnerJson = (text: string): unknown => {
  try {
    return parseInner(text)
  } catch {
    return undefined // as above
  }
}

/** As parseInnerJson, but numbers beyond JavaScript's range keep their spelling. */
export const parseInnerExactJson = (text: string): unknown => {
  try {
    return parseInnerExact(text)
  } catch {
    return undefined // as above
  }
}

/** As parseJson, but numbers beyond JavaScript's range keep their spelling. */
export const parseExactJson = (text: string): unknown => {
  try {
    return parseExact(text)
  } catch {
    return undefined // as above
  }
}

/** An object member of a JSON text; null when the text cannot be parsed, or has none of that name. */
export const memberIn = (body: string, name: string): Json | null => {
  const member = objectOf(parseJson(body))[name]
  return isObject(member) ? member : null
}
