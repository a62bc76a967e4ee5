// `calculator`: exact arithmetic, and nothing else.
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { calculator } from '../../../../src/inference/run/builtin/calculator.ts'
import { type ToolContext, ToolFailure } from '../../../../src/inference/run/builtin/handler.ts'

const NOTHING = {} as ToolContext
const computed = (expression: string): unknown => JSON.parse(calculator({ expression }, NOTHING) as string)
const exactly = (result: string) => ({ result, exact: true })

const failure = (expression: string): ToolFailure => {
  try {
    calculator({ expression }, NOTHING)
  } catch (error) {
    expect(error).toBeInstanceOf(ToolFailure)
    return error as ToolFailure
  }
  throw new Error(`${expression} was computed`)
}

describe('a result', () => {
  test.each([
    ['0.1 + 0.2', '0.3'],
    ['2 + 3 * 4', '14'],
    ['(2 + 3) * 4', '20'],
    ['-2 ^ 2', '-4'],
    ['2 ^ 3 ^ 2', '512'],
    ['2 ** 10', '1024'],
    ['2 ^ -2', '0.25'],
    ['7 % 3', '1'],
    ['-7 % 3', '-1'],
    ['7.5 % 2', '1.5'],
    ['1e3 / 8', '125'],
    ['.5 × 4 − 1 ÷ 2', '1.5'],
    ['--3', '3'],
    ['0.00000000000000000001 * 10', '0.0000000000000000001'],
    ['99999999999999999999 + 1', '100000000000000000000'],
    ['1 - 1', '0'],
    ['10 / 4', '2.5'],
  ])('of %s is %s', (expression, result) => {
    expect(computed(expression)).toEqual(exactly(result))
  })

  test.each([
    ['1 / 3', '0.3333333333333333333333333333333333'],
    ['2 / 3', '0.6666666666666666666666666666666667'],
    ['-1 / 7', '-0.1428571428571428571428571428571429'],
    ['10 ^ 120 + 1', '1e+120'],
    ['1 / 3 / 10 ^ 20', '3.333333333333333333333333333333333e-21'],
    ['2 / 3 * 10 ^ 5', '66666.66666666666666666666666666667'],
  ])('of %s that does not end is rounded to 34 digits', (expression, result) => {
    expect(computed(expression)).toEqual({ result, exact: false })
  })

  test('is that of exact fractions', () => {
    const number = fc.tuple(fc.integer({ min: -9_999, max: 9_999 }), fc.constantFrom(0, 1, 2, 3))
    const operator = fc.constantFrom('+', '-', '*')
    fc.assert(
      fc.property(fc.array(fc.tuple(operator, number), { minLength: 1, maxLength: 12 }), (rest) => {
        // Sums of products, counted in whole units of 10^-places.
        let text = '1'
        let total = 0n
        let product = 1n
        let scale = 0
        for (const [sign, [digits, places]] of rest) {
          const value = `${digits < 0 ? '-' : ''}${String(Math.abs(digits)).padStart(places + 1, '0')}`
          const decimal = places === 0 ? value : `${value.slice(0, -places)}.${value.slice(-places)}`
          text += ` ${sign} (${decimal})`
          const wide = scale + places
          if (sign === '*') {
            product *= BigInt(digits)
            total *= 10n ** BigInt(places)
          } else {
            total = (total + product) * 10n ** BigInt(places)
            product = BigInt(sign === '-' ? -digits : digits) * 10n ** BigInt(scale)
          }
          scale = wide
        }
        total += product
        const { result, exact } = computed(text) as { result: string; exact: boolean }
        if (!exact) return
        const [whole, fraction = ''] = result.split('.')
        expect(BigInt(whole + fraction) * 10n ** BigInt(scale)).toBe(total * 10n ** BigInt(fraction.length))
      }),
      { numRuns: 500 },
    )
  })
})

describe('an expression is refused', () => {
  test.each([
    ['sqrt(4)', 'character 1: it has a name or a function'],
    ['1,000 + 1', 'no thousands separators'],
    ['constructor', 'it has a name'],
    ['1 +', 'ends where a number should follow'],
    ['(1', 'a ")" is missing'],
    ['1 2', 'an operator or a number is missing'],
    ['1 / 0', 'divides by zero'],
    ['5 % 0', 'divides by zero'],
    ['0 ^ -1', 'divides by zero'],
    ['2 ^ 0.5', 'a whole number'],
    ['1; 2', '";" is no operator'],
  ])('%s', (expression, message) => {
    expect(failure(expression)).toMatchObject({ code: 'bad_arguments' })
    expect(failure(expression).message).toContain(message)
  })

  test.each(['9 ^ 9 ^ 9', '10 ^ 2000', '1e99999', `${'('.repeat(100)}1${')'.repeat(100)}`, `2${'^1'.repeat(100)}`])(
    '%s is too large',
    (expression) => {
      expect(failure(expression)).toMatchObject({ code: 'too_large' })
    },
  )

  test('by a message, whatever its text is', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom(...'0123456789.+-*/%^() eE,a;\u0000é'), maxLength: 500 }),
        (text) => {
          try {
            computed(text)
          } catch (error) {
            expect(error).toBeInstanceOf(ToolFailure)
          }
        },
      ),
      { numRuns: 2_000 },
    )
  })
})
