// Exact fractions of bounded size, for the calculator.
import { ToolFailure } from './handler.ts'

/** `numerator / denominator`; the denominator is positive. Not always reduced. */
export interface Rational {
  readonly numerator: bigint
  readonly denominator: bigint
}

/** Of numerator and denominator each: some 600 decimal digits. */
const MOST_BITS = 2_048
const LIMIT = 1n << BigInt(MOST_BITS)
const MOST_EXPONENT = 2_048n
/** A result with more digits is rounded to `ROUNDED_DIGITS`. */
const MOST_DIGITS = 100
const ROUNDED_DIGITS = 34

const absolute = (value: bigint): bigint => (value < 0n ? -value : value)

const commonDivisor = (one: bigint, other: bigint): bigint => {
  let [a, b] = [absolute(one), absolute(other)]
  while (b !== 0n) [a, b] = [b, a % b]
  return a
}

const isSmall = (value: bigint): boolean => value < LIMIT && value > -LIMIT

const reduced = ({ numerator, denominator }: Rational): Rational => {
  const divisor = commonDivisor(numerator, denominator)
  return divisor === 1n
    ? { numerator, denominator }
    : { numerator: numerator / divisor, denominator: denominator / divisor }
}

/** Reduces only what grows large, since that takes longer than the operation itself. Throws `too_large`. */
const bounded = (value: Rational): Rational => {
  if (isSmall(value.numerator) && isSmall(value.denominator)) return value
  const small = reduced(value)
  if (isSmall(small.numerator) && isSmall(small.denominator)) return small
  throw new ToolFailure('too_large', 'a number in the expression becomes too large')
}

/** Of decimal text, `12.5e-3`. */
export const rationalOf = (whole: string, fraction: string, exponent: number): Rational => {
  if (Math.abs(exponent) > MOST_BITS || whole.length + fraction.length > MOST_BITS)
    throw new ToolFailure('too_large', 'a number in the expression is too large')
  const digits = BigInt(whole + fraction)
  const shift = exponent - fraction.length
  return bounded(
    shift >= 0
      ? { numerator: digits * 10n ** BigInt(shift), denominator: 1n }
      : { numerator: digits, denominator: 10n ** BigInt(-shift) },
  )
}

export const negated = ({ numerator, denominator }: Rational): Rational => ({ numerator: -numerator, denominator })

export const sum = (a: Rational, b: Rational): Rational =>
  a.denominator === b.denominator
    ? bounded({ numerator: a.numerator + b.numerator, denominator: a.denominator })
    : bounded({
        numerator: a.numerator * b.denominator + b.numerator * a.denominator,
        denominator: a.denominator * b.denominator,
      })

export const product = (a: Rational, b: Rational): Rational =>
  bounded({ numerator: a.numerator * b.numerator, denominator: a.denominator * b.denominator })

export const quotient = (a: Rational, b: Rational): Rational => {
  if (b.numerator === 0n) throw new ToolFailure('bad_arguments', 'the expression divides by zero')
  const sign = b.numerator < 0n ? -1n : 1n
  return bounded({
    numerator: a.numerator * b.denominator * sign,
    denominator: a.denominator * b.numerator * sign,
  })
}

/** What is left after whole division; it has the sign of `a`. */
export const remainder = (a: Rational, b: Rational): Rational => {
  const { numerator, denominator } = quotient(a, b)
  const whole = numerator / denominator
  return sum(a, negated(product(b, { numerator: whole, denominator: 1n })))
}

/** Throws for an exponent that is no whole number. */
export const power = (base: Rational, exponent: Rational): Rational => {
  const { numerator, denominator } = reduced(exponent)
  if (denominator !== 1n) throw new ToolFailure('bad_arguments', 'an exponent must be a whole number')
  const times = absolute(numerator)
  if (times > MOST_EXPONENT) throw new ToolFailure('too_large', `an exponent may be at most ${MOST_EXPONENT}`)
  let result: Rational = { numerator: 1n, denominator: 1n }
  let square = reduced(base)
  for (let left = times; left > 0n; left >>= 1n) {
    if (left & 1n) result = product(result, square)
    if (left > 1n) square = product(square, square)
  }
  return numerator < 0n ? quotient({ numerator: 1n, denominator: 1n }, result) : result
}

/** The value as decimal text, and whether it is the whole value. */
export const decimalText = (value: Rational): { readonly text: string; readonly exact: boolean } => {
  const { numerator, denominator } = reduced(value)
  const sign = numerator < 0n ? '-' : ''
  const size = absolute(numerator)
  const places = decimalPlaces(denominator)
  const whole = String(size / denominator)
  if (places !== null && whole.length + places <= MOST_DIGITS)
    return { text: sign + withPoint((size * 10n ** BigInt(places)) / denominator, places), exact: true }
  return { text: sign + rounded(size, denominator), exact: false }
}

/** Digits behind the point that a fraction of this denominator needs; null: it never ends. */
const decimalPlaces = (denominator: bigint): number | null => {
  let rest = denominator
  let twos = 0
  let fives = 0
  while (rest % 2n === 0n) {
    rest /= 2n
    twos++
  }
  while (rest % 5n === 0n) {
    rest /= 5n
    fives++
  }
  return rest === 1n ? Math.max(twos, fives) : null
}

const withPoint = (digits: bigint, places: number): string => {
  if (places === 0) return String(digits)
  const text = String(digits).padStart(places + 1, '0')
  return `${text.slice(0, -places)}.${text.slice(-places)}`
}

/** Rounded half up to `ROUNDED_DIGITS` significant digits, in the form `1.5e+20`. `size` is positive. */
const rounded = (size: bigint, denominator: bigint): string => {
  let exponent = String(size).length - String(denominator).length
  if (isBelowPower(size, denominator, exponent)) exponent--
  const shift = ROUNDED_DIGITS - 1 - exponent
  const [scaled, divisor] =
    shift >= 0 ? [size * 10n ** BigInt(shift), denominator] : [size, denominator * 10n ** BigInt(-shift)]
  let digits = String((scaled * 2n + divisor) / (divisor * 2n))
  if (digits.length > ROUNDED_DIGITS) {
    digits = digits.slice(0, -1)
    exponent++
  }
  if (exponent >= 0 && exponent < ROUNDED_DIGITS)
    return trimmed(`${digits.slice(0, exponent + 1)}.${digits.slice(exponent + 1)}`)
  if (exponent < 0 && exponent > -8) return trimmed(`0.${'0'.repeat(-exponent - 1)}${digits}`)
  return `${trimmed(`${digits[0]}.${digits.slice(1)}`)}e${exponent < 0 ? '' : '+'}${exponent}`
}

/** `size / denominator < 10^exponent` */
const isBelowPower = (size: bigint, denominator: bigint, exponent: number): boolean =>
  exponent >= 0 ? size < denominator * 10n ** BigInt(exponent) : size * 10n ** BigInt(-exponent) < denominator

const trimmed = (text: string): string => text.replace(/\.?0+$/, '')
