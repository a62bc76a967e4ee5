// Reading what upstreams answer: loose, only the fields that are used, never an exception for a surprise.
import { isObject } from '../wire/json.ts'

export type Json = Readonly<Record<string, unknown>>

export const objectOf = (value: unknown): Json => (isObject(value) ? value : {})
export const arrayOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
export const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)
/** A number of tokens: a whole number from 0, else null (absent and 0 are different things). */
export const countOf = (value: unknown): number | null =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null

/** Undefined when the text is no JSON. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // the caller says what a text that is no JSON means to it
  }
}
