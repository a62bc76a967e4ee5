// JSON whose numbers survive reading and writing: a number beyond JavaScript's precision keeps its text.
import { tooDeepAt } from './json-bounds.ts'

/** Digits or an exponent beyond what a double certainly represents. */
const LONG_NUMBER = /\d{16}|[eE][+-]?\d{3}/

interface WithRaw {
  /** Makes a value that JSON.stringify writes as this text; only for primitive values. */
  rawJSON(text: string): unknown
  isRawJSON(value: unknown): boolean
}
const json = JSON as unknown as WithRaw

const keepLong = (_: string, value: unknown, context?: { readonly source?: string }): unknown => {
  const source = typeof value === 'number' ? context?.source : undefined
  return source !== undefined && LONG_NUMBER.test(source) ? json.rawJSON(source) : value
}

/** Whether the text may have such a number. Errs on the safe side: digits inside strings count too. */
export const hasLongNumber = (text: string): boolean => LONG_NUMBER.test(text)

/** A text of JSON within a text of JSON may be as deep as this: a body's own bound does not look into its texts. */
const MOST_DEPTH = 128
const SHORT_CHARS = 512

/**
 * As JSON.parse for a text that is bounded itself, but for its depth: one that is nested too deeply is refused before
 * it is parsed. Throws SyntaxError.
 */
export const parseBounded = (text: string): unknown => {
  requireDepth(text)
  return JSON.parse(text)
}

const requireDepth = (text: string): void => {
  if (text.length > SHORT_CHARS && tooDeepAt(text, MOST_DEPTH) !== null)
    throw new SyntaxError(`JSON that is nested deeper than ${MOST_DEPTH} levels`)
}

/**
 * As parseBounded, but a long number becomes an opaque value that JSON.stringify writes unchanged. Throws SyntaxError.
 */
export const parseExact = (text: string): unknown => {
  requireDepth(text)
  return exactly(text)
}

const exactly = (text: string): unknown =>
  hasLongNumber(text) ? JSON.parse(text, keepLong as (key: string, value: unknown) => unknown) : JSON.parse(text)

/** True for the opaque values of parseExact, which look like objects. */
export const isLongNumber = (value: unknown): boolean => json.isRawJSON(value)
