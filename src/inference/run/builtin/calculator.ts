// `calculator`: arithmetic over exact fractions. Knows no names and no functions, so an expression can reach nothing.
import { ToolFailure, type ToolHandler } from './handler.ts'
import {
  decimalText,
  negated,
  power,
  product,
  quotient,
  type Rational,
  rationalOf,
  remainder,
  sum,
} from './rational.ts'

const MOST_NESTED = 64
const NUMBER = /(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d{1,5}))?|\.(\d+)(?:[eE]([+-]?\d{1,5}))?/y
/** Other forms of the operators that models write. */
const SAME: Readonly<Record<string, string>> = { '×': '*', '·': '*', '÷': '/', '−': '-', '–': '-', '**': '^' }

const tokensOf = (expression: string): (string | Rational)[] => {
  const tokens: (string | Rational)[] = []
  for (let at = 0; at < expression.length; ) {
    const char = expression[at]!
    if (/\s/.test(char)) {
      at++
      continue
    }
    NUMBER.lastIndex = at
    const number = NUMBER.exec(expression)
    if (number !== null) {
      const [text, whole = '0', fraction = '', exponent, bare, bareExponent] = number
      tokens.push(rationalOf(whole, bare ?? fraction, Number(exponent ?? bareExponent ?? 0)))
      at += text.length
      continue
    }
    const operator = expression.startsWith('**', at) ? '**' : char
    const token = SAME[operator] ?? operator
    if (!'+-*/%^()'.includes(token)) throw refused(expression, at)
    tokens.push(token)
    at += operator.length
  }
  return tokens
}

const refused = (expression: string, at: number): ToolFailure => {
  const char = expression[at]!
  const why = /[a-z_]/i.test(char)
    ? 'it has a name or a function, and takes numbers and operators only'
    : char === ','
      ? 'numbers have no thousands separators, and the decimal mark is a point'
      : `${JSON.stringify(char)} is no operator`
  return new ToolFailure('bad_arguments', `the expression cannot be read at character ${at + 1}: ${why}`)
}

/** Reads tokens from the left. Binding from weak to strong: `+ -`, `* / %`, sign, `^` (to the right). */
class Parser {
  #at = 0
  #nested = 0

  constructor(private readonly tokens: readonly (string | Rational)[]) {}

  whole(): Rational {
    const value = this.#sum()
    if (this.#at < this.tokens.length) throw this.#unexpected()
    return value
  }

  #sum(): Rational {
    let value = this.#term()
    for (;;) {
      if (this.#take('+')) value = sum(value, this.#term())
      else if (this.#take('-')) value = sum(value, negated(this.#term()))
      else return value
    }
  }

  #term(): Rational {
    let value = this.#signed()
    for (;;) {
      if (this.#take('*')) value = product(value, this.#signed())
      else if (this.#take('/')) value = quotient(value, this.#signed())
      else if (this.#take('%')) value = remainder(value, this.#signed())
      else return value
    }
  }

  #signed(): Rational {
    let isNegative = false
    for (;;) {
      if (this.#take('-')) isNegative = !isNegative
      else if (!this.#take('+')) break
    }
    const value = this.#power()
    return isNegative ? negated(value) : value
  }

  #power(): Rational {
    const base = this.#primary()
    if (!this.#take('^')) return base
    return this.#deeper(() => power(base, this.#signed()))
  }

  #primary(): Rational {
    const token = this.tokens[this.#at]
    if (typeof token === 'object') {
      this.#at++
      return token
    }
    if (!this.#take('(')) throw this.#unexpected()
    const value = this.#deeper(() => this.#sum())
    if (!this.#take(')')) throw new ToolFailure('bad_arguments', 'a ")" is missing in the expression')
    return value
  }

  #deeper(read: () => Rational): Rational {
    if (++this.#nested > MOST_NESTED)
      throw new ToolFailure('too_large', `the expression is nested more than ${MOST_NESTED} levels deep`)
    const value = read()
    this.#nested--
    return value
  }

  #take(token: string): boolean {
    if (this.tokens[this.#at] !== token) return false
    this.#at++
    return true
  }

  #unexpected(): ToolFailure {
    const token = this.tokens[this.#at]
    if (token === undefined) return new ToolFailure('bad_arguments', 'the expression ends where a number should follow')
    const shown = typeof token === 'string' ? `"${token}"` : 'a number'
    return new ToolFailure('bad_arguments', `the expression has ${shown} where an operator or a number is missing`)
  }
}

/** `{"result": "0.3", "exact": true}`; a result that does not end is rounded to 34 digits, `exact` false. */
export const calculator: ToolHandler = ({ expression }) => {
  const { text, exact } = decimalText(new Parser(tokensOf(expression as string)).whole())
  return JSON.stringify({ result: text, exact })
}
