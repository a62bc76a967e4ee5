// Keywords of JSON Schema about a value itself: its type, size, range and form.
import { canonicalJson } from '../json/canonical-json.ts'
import type { Assertion, Run } from './run.ts'
import { countOf, isRecord, type Keyword, recordOf, type Site, shownName, stringsOf, textSteps } from './site.ts'
import { formatCheck } from './string-formats.ts'

const TYPES: ReadonlyMap<string, (value: unknown) => boolean> = new Map<string, (value: unknown) => boolean>([
  ['null', (value) => value === null],
  ['boolean', (value) => typeof value === 'boolean'],
  ['number', (value) => typeof value === 'number'],
  ['integer', (value) => Number.isInteger(value)],
  ['string', (value) => typeof value === 'string'],
  ['array', Array.isArray],
  ['object', isRecord],
])

const type: Keyword = (value, site) => {
  const names: readonly unknown[] = Array.isArray(value) ? value : [value]
  const checks = names.map((name) => (typeof name === 'string' ? TYPES.get(name) : undefined))
  if (checks.length === 0 || checks.includes(undefined))
    throw site.error('type', `must be one of ${[...TYPES.keys()].join(', ')}, or a list of these`)
  const [only, second] = checks
  const wanted = `must be ${names.join(' or ')}`
  if (second === undefined) return (actual, run) => only!(actual) || run.fail(wanted)
  return (actual, run) => checks.some((check) => check!(actual)) || run.fail(wanted)
}

const isSimple = (value: unknown): boolean => value === null || typeof value !== 'object'
const textOf = (value: unknown, run: Run): string => canonicalJson(value, (steps) => run.spend(steps))

const among = (allowed: readonly unknown[], complaint: string): Assertion => {
  const simple = new Set(allowed.filter(isSimple).map((value) => (value === 0 ? 0 : value)))
  const others = new Set(allowed.filter((value) => !isSimple(value)).map((value) => canonicalJson(value)))
  return (value, run) => {
    const found = isSimple(value) ? simple.has(value) : others.size > 0 && others.has(textOf(value, run))
    return found || run.fail(complaint)
  }
}

const enumeration: Keyword = (value, site) => {
  if (!Array.isArray(value)) throw site.error('enum', 'must be a list of values')
  return among(value, 'must be one of the values of `enum`')
}

const constant: Keyword = (value) => among([value], 'must be the value of `const`')

const range =
  (name: string, meets: (value: number, limit: number) => boolean, words: string): Keyword =>
  (limit, site) => {
    if (typeof limit !== 'number') throw site.error(name, 'must be a number')
    return (value, run) => typeof value !== 'number' || meets(value, limit) || run.fail(`must be ${words} ${limit}`)
  }

const multipleOf: Keyword = (divisor, site) => {
  if (typeof divisor !== 'number' || divisor <= 0) throw site.error('multipleOf', 'must be a number above 0')
  return (value, run) =>
    typeof value !== 'number' || isMultiple(value, divisor) || run.fail(`must be a multiple of ${divisor}`)
}

/** Up to the rounding of the division. */
const isMultiple = (value: number, divisor: number): boolean => {
  const quotient = value / divisor
  if (!Number.isFinite(quotient)) return value % divisor === 0
  return Math.abs(quotient - Math.round(quotient)) <= Math.abs(quotient) * 2 * Number.EPSILON
}

/** Unicode characters: a surrogate pair is one. */
const lengthOf = (text: string): number => {
  let length = text.length
  for (let i = 0; i < text.length - 1; i++)
    if ((text.charCodeAt(i) & 0xfc00) === 0xd800 && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) length--
  return length
}

const sized =
  (name: string, measure: (value: unknown, run: Run) => number | null, isLeast: boolean, of: string): Keyword =>
  (value, site) => {
    const limit = countOf(value, name, site)
    const complaint = `must have at ${isLeast ? 'least' : 'most'} ${limit} ${of}`
    return (actual, run) => {
      const measured = measure(actual, run)
      return measured === null || (isLeast ? measured >= limit : measured <= limit) || run.fail(complaint)
    }
  }

const characters = (value: unknown, run: Run): number | null => {
  if (typeof value !== 'string') return null
  run.spend(textSteps(value))
  return lengthOf(value)
}
const items = (value: unknown): number | null => (Array.isArray(value) ? value.length : null)
const members = (value: unknown, run: Run): number | null => {
  if (!isRecord(value)) return null
  const count = Object.keys(value).length
  run.spend(1 + (count >> 2))
  return count
}

const pattern: Keyword = (value, site) => {
  if (typeof value !== 'string') throw site.error('pattern', 'must be a string')
  const { size, test } = site.pattern(value, 'pattern', null)
  if (test === null) return (text, run) => typeof text !== 'string' || run.assume()
  return (text, run) => {
    if (typeof text !== 'string') return true
    run.spend(size * textSteps(text))
    return test(text) || run.fail(`must match the pattern ${shownName(value)}`)
  }
}

const format: Keyword = (value, site) => {
  if (typeof value !== 'string') throw site.error('format', 'must be a string')
  const check = site.assertsFormats ? formatCheck(value) : undefined
  if (check === undefined) return null
  return (text, run) => {
    if (typeof text !== 'string') return true
    run.spend(textSteps(text))
    return check(text) || run.fail(`must have the format "${value}"`)
  }
}

const uniqueItems: Keyword = (value, site) => {
  if (typeof value !== 'boolean') throw site.error('uniqueItems', 'must be true or false')
  if (!value) return null
  return (list, run) => {
    if (!Array.isArray(list)) return true
    const known = new Set<unknown>()
    run.spend(list.length)
    for (const item of list) {
      const key = typeof item === 'number' || typeof item === 'boolean' ? item : textOf(item, run)
      if (known.has(key)) return run.fail('must not have the same item twice')
      known.add(key)
    }
    return true
  }
}

const required: Keyword = (value, site) => {
  const names = stringsOf(value, 'required', site)
  return (object, run) => !isRecord(object) || hasAll(object, names, run)
}

const hasAll = (object: Readonly<Record<string, unknown>>, names: readonly string[], run: Run): boolean => {
  run.spend(names.length >> 2)
  for (const name of names) if (!Object.hasOwn(object, name)) return run.fail(`must have the member ${shownName(name)}`)
  return true
}

/** The members that each present member requires. */
export const dependentNames = (needs: ReadonlyMap<string, readonly string[]>): Assertion => {
  const entries = [...needs]
  return (object, run) => {
    if (!isRecord(object)) return true
    run.spend(entries.length >> 2)
    for (const [name, names] of entries) if (Object.hasOwn(object, name) && !hasAll(object, names, run)) return false
    return true
  }
}

const dependentRequired: Keyword = (value, site) => {
  const needs = new Map<string, readonly string[]>()
  for (const [name, names] of Object.entries(recordOf(value, 'dependentRequired', site)))
    needs.set(name, stringsOf(names, 'dependentRequired', site))
  return dependentNames(needs)
}

const ofBoth = (): [string, Keyword][] => [
  ['type', type],
  ['enum', enumeration],
  ['const', constant],
  ['minimum', range('minimum', (value, limit) => value >= limit, 'at least')],
  ['maximum', range('maximum', (value, limit) => value <= limit, 'at most')],
  ['exclusiveMinimum', range('exclusiveMinimum', (value, limit) => value > limit, 'above')],
  ['exclusiveMaximum', range('exclusiveMaximum', (value, limit) => value < limit, 'below')],
  ['multipleOf', multipleOf],
  ['minLength', sized('minLength', characters, true, 'characters')],
  ['maxLength', sized('maxLength', characters, false, 'characters')],
  ['minItems', sized('minItems', items, true, 'items')],
  ['maxItems', sized('maxItems', items, false, 'items')],
  ['minProperties', sized('minProperties', members, true, 'members')],
  ['maxProperties', sized('maxProperties', members, false, 'members')],
  ['pattern', pattern],
  ['format', format],
  ['uniqueItems', uniqueItems],
  ['required', required],
]

/** In the order of compiling and checking. */
export const valueKeywords = ({ isDraft7 }: Pick<Site, 'isDraft7'>): ReadonlyMap<string, Keyword> =>
  new Map(isDraft7 ? ofBoth() : [...ofBoth(), ['dependentRequired', dependentRequired]])
