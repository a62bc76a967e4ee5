// The canonical form of JSON (RFC 8785): one text for each value, whatever the order of members, spacing and escapes. A
// number that a double would change keeps its own text, so that two numbers which differ never share a form.

/** Fewer digits, and smaller exponents, survive a double. Digits inside strings count too, which costs time only. */
const MAY_CHANGE = /[\d.]{16}|[eE][+-]?0*\d{3}/

/** A number as it was written. */
class ExactNumber {
  constructor(readonly text: string) {}
}

/** A JSON text as a value for `canonicalForm`. Throws SyntaxError. */
export const parseForCanonical = (text: string): unknown =>
  mayChangeNumbers(text) ? JSON.parse(text, keepChanged as (key: string, value: unknown) => unknown) : JSON.parse(text)

/** Whether a value that JSON.parse made of the text may hold a changed number. Errs on the safe side. */
export const mayChangeNumbers = (text: string): boolean => MAY_CHANGE.test(text)

const keepChanged = (_: string, value: unknown, context?: { readonly source?: string }): unknown => {
  const source = typeof value === 'number' ? context?.source : undefined
  return source === undefined || isSameNumber(source, String(value)) ? value : new ExactNumber(source)
}

/** Whether two decimal texts are the same number. */
const isSameNumber = (left: string, right: string): boolean => left === right || decimalOf(left) === decimalOf(right)

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

/** Sign, significant digits and exponent as a text that is the same for the same number. */
const decimalOf = (text: string): string => {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = NUMBER.exec(text) ?? []
  const all = (whole + fraction).replace(/^0+/, '')
  const digits = all.replace(/0+$/, '')
  if (digits === '') return '0'
  // A number of any length: exponents are added as integers without a bound.
  return `${sign}${digits}e${BigInt(exponent) - BigInt(fraction.length) + BigInt(all.length - digits.length)}`
}

/**
 * The canonical text of a parsed value. `without`: members of the outermost object that are left out. The caller bounds
 * the depth.
 */
export const canonicalForm = (value: unknown, without: ReadonlySet<string> | null = null): string => {
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (value instanceof ExactNumber) return value.text
  let text = ''
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) text += i === 0 ? canonicalForm(value[i]) : `,${canonicalForm(value[i])}`
    return `[${text}]`
  }
  // Sorted by UTF-16 code units, as the standard requires.
  for (const key of Object.keys(value).sort()) {
    if (without?.has(key)) continue
    const member = canonicalForm((value as Record<string, unknown>)[key])
    text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${member}`
  }
  return `{${text}}`
}
