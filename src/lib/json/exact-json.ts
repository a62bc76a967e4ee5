// JSON whose numbers survive reading and writing: a number beyond JavaScript's precision keeps its text.

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

/**
 * As JSON.parse, but a long number becomes an opaque value that JSON.stringify writes unchanged. Throws SyntaxError.
 */
export const parseExact = (text: string): unknown =>
  hasLongNumber(text) ? JSON.parse(text, keepLong as (key: string, value: unknown) => unknown) : JSON.parse(text)

/** True for the opaque values of parseExact, which look like objects. */
export const isLongNumber = (value: unknown): boolean => json.isRawJSON(value)
