// JSON whose numbers survive reading and writing: a number beyond JavaScript's precision keeps its text.
import { type JsonBounds, jsonExcess, tooDeepAt } from './json-bounds.ts'

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

/** Bounds of a text of JSON within a text of JSON: the bounds of a body do not look into its texts. */
const INNER: JsonBounds = { depth: 128, values: 200_000, names: 20_000 }
const SHORT_CHARS = 512

/**
 * As JSON.parse for a text within another text: one that exceeds a bound is refused before it is parsed. Throws
 * SyntaxError.
 */
export const parseInner = (text: string): unknown => {
  requireInner(text)
  return JSON.parse(text)
}

/** As parseInner, but a long number becomes an opaque value that JSON.stringify writes unchanged. */
export const parseInnerExact = (text: string): unknown => {
  requireInner(text)
  return exactly(text)
}

const requireInner = (text: string): void => {
  const excess = text.length > SHORT_CHARS ? jsonExcess(text, INNER) : null
  if (excess !== null) throw new SyntaxError(`JSON within a text that exceeds the bound of its ${excess.of}`)
}

/**
 * As JSON.parse for a whole body or event, whose names and values were counted when it came; a long number becomes an
 * opaque value that JSON.stringify writes unchanged. Throws SyntaxError, for a text that is nested too deeply too.
 */
export const parseExact = (text: string): unknown => {
  if (text.length > SHORT_CHARS && tooDeepAt(text, INNER.depth) !== null)
    throw new SyntaxError(`JSON that is nested deeper than ${INNER.depth} levels`)
  return exactly(text)
}

const exactly = (text: string): unknown =>
  hasLongNumber(text) ? JSON.parse(text, keepLong as (key: string, value: unknown) => unknown) : JSON.parse(text)

/** True for the opaque values of parseExact, which look like objects. */
export const isLongNumber = (value: unknown): boolean => json.isRawJSON(value)
