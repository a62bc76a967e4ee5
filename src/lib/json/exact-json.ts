// JSON whose numbers survive being read and written again: what a JavaScript number cannot hold keeps its text.

/** Digits or an exponent beyond what a double surely holds. */
const LONG_NUMBER = /\d{16}|[eE][+-]?\d{3}/

interface WithRaw {
  /** Makes a value that JSON.stringify writes as this text; only numbers, strings and the like. */
  rawJSON(text: string): unknown
  isRawJSON(value: unknown): boolean
}
const json = JSON as unknown as WithRaw

const keepLong = (_: string, value: unknown, context?: { readonly source?: string }): unknown => {
  const source = typeof value === 'number' ? context?.source : undefined
  return source !== undefined && LONG_NUMBER.test(source) ? json.rawJSON(source) : value
}

/** Whether the text may hold such a number. A guess on the safe side: digits inside strings count too. */
export const hasLongNumber = (text: string): boolean => LONG_NUMBER.test(text)

/** JSON.parse, but a long number becomes an opaque value that JSON.stringify writes as it stood. Throws SyntaxError. */
export const parseExact = (text: string): unknown =>
  hasLongNumber(text) ? JSON.parse(text, keepLong as (key: string, value: unknown) => unknown) : JSON.parse(text)

/** True for the opaque values of parseExact: they look like objects and are none. */
export const isLongNumber = (value: unknown): boolean => json.isRawJSON(value)
