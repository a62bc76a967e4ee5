// Invalid bodies, made from a schema: for every field, at any depth, values that the schema refuses.
import { Kind, type TSchema, t, Value } from '../../../../src/lib/schema/schema.ts'

export interface BadBody {
  readonly what: string
  /** JSON text. */
  readonly raw: string
  /** The field at top level that has to be named; null: the whole body is to blame. */
  readonly field: string | null
}

/** `JSON.stringify` cannot write these. */
const INFINITE = '@infinite'
const HALF = '@half'
const rawOf = (body: unknown): string =>
  JSON.stringify(body).replaceAll(`"${INFINITE}"`, '1e999').replaceAll(HALF, '\\ud800')

const JUNK: readonly unknown[] = [null, true, 0, -1, 1.5, 1e300, '', 'x', [], {}, [[]], [null], { x: 1 }, [{}], [-1]]

const alternatives = (schema: TSchema): readonly TSchema[] => (schema.anyOf as TSchema[] | undefined) ?? [schema]

/** Values at the edges of what this schema takes, and beyond them. */
const edges = (schema: TSchema): readonly unknown[] =>
  alternatives(schema).flatMap((one): unknown[] => {
    if (one[Kind] === 'String' && one.const === undefined) {
      const { minLength = 0, maxLength } = one as { minLength?: number; maxLength?: number }
      const short = minLength === 0 ? [] : ['a'.repeat(minLength - 1)]
      return [...short, ...(maxLength === undefined ? [] : ['a'.repeat(maxLength + 1)]), 'a\u0000b']
    }
    if (one[Kind] === 'Number' || one[Kind] === 'Integer') {
      const { minimum, maximum } = one as { minimum?: number; maximum?: number }
      return [...(minimum === undefined ? [] : [minimum - 1]), ...(maximum === undefined ? [] : [maximum + 1]), 0.5]
    }
    if (one[Kind] === 'Array' && typeof one.maxItems === 'number')
      return [Array.from({ length: one.maxItems + 1 }, (_, i) => `a${i}`)]
    return []
  })

const isText = (schema: TSchema): boolean => alternatives(schema).some((one) => one[Kind] === 'String')
const isNumber = (schema: TSchema): boolean =>
  alternatives(schema).some((one) => one[Kind] === 'Number' || one[Kind] === 'Integer')

/** Values that the schema refuses, each as it is put into a body. */
const refusedBy = (schema: TSchema): readonly unknown[] => {
  const wrong = [...JUNK, ...edges(schema)].filter((value) => !Value.Check(schema, value) || value === 'a\u0000b')
  // A number that JSON cannot express, and half of a character: never valid, whatever the schema.
  return [...wrong, ...(isNumber(schema) ? [INFINITE] : []), ...(isText(schema) ? [`a${HALF}`] : [])]
}

type Path = readonly (string | number)[]

/** Every place of a schema, with what stands there. */
const places = (schema: TSchema, path: Path = []): readonly (readonly [Path, TSchema])[] =>
  alternatives(schema).flatMap((one) => {
    const properties = Object.entries((one.properties ?? {}) as Record<string, TSchema>)
    const members = properties.flatMap(([name, member]) => [
      [[...path, name], member] as const,
      ...places(member, [...path, name]),
    ])
    const items = one[Kind] === 'Array' ? (one.items as TSchema) : null
    return items === null ? members : [...members, [[...path, 0], items] as const, ...places(items, [...path, 0])]
  })

/** A copy in which this stands at that place; what is missing on the way there is made. */
const put = (into: unknown, [first, ...rest]: Path, value: unknown): unknown => {
  if (first === undefined) return value
  if (typeof first === 'number') return [put(Array.isArray(into) ? into[0] : undefined, rest, value)]
  const object = into !== null && typeof into === 'object' && !Array.isArray(into) ? into : {}
  return { ...object, [first]: put((object as Record<string, unknown>)[first], rest, value) }
}

const shown = (value: unknown): string => String(JSON.stringify(value)).slice(0, 40)

/** Names that a body may not have, though an object of the language does. */
const FOREIGN = ['surprise', '__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'a.b', ' name']

const withMember = (good: object, name: string, json: string): string => {
  const text = JSON.stringify(good)
  return `${text.slice(0, -1)}${text === '{}' ? '' : ','}${JSON.stringify(name)}:${json}}`
}

/** Bodies that are wrong in one place. `good` is right. */
export const badBodies = (schema: TSchema, good: object): readonly BadBody[] => {
  const known = Object.keys((schema.properties ?? {}) as object)
  const values = places(schema).flatMap(([path, at]) =>
    refusedBy(at).map((value): BadBody => {
      const what = `${path.join('.')} is ${shown(value)}`
      return { what, raw: rawOf(put(good, path, value)), field: String(path[0]) }
    }),
  )
  const missing = ((schema.required ?? []) as string[]).map((name): BadBody => {
    const { [name]: _, ...rest } = good as Record<string, unknown>
    return { what: `without ${name}`, raw: JSON.stringify(rest), field: name }
  })
  const foreign = FOREIGN.filter((name) => !known.includes(name)).flatMap((name) =>
    ['1', '{"polluted":true}'].map(
      (json): BadBody => ({ what: `with ${name}`, raw: withMember(good, name, json), field: name }),
    ),
  )
  const twice = Object.keys(good).map((name): BadBody => {
    const value = JSON.stringify((good as Record<string, unknown>)[name])
    return { what: `${name} twice`, raw: withMember(good, name, value), field: name }
  })
  const unreadable = ['name', 'slug', 'plan', 'upstream_model', 'target', 'model', 'provider', 'username']
    .filter((name) => known.includes(name))
    .flatMap((name) => UNREADABLE.map((text) => ({ name, text })))
    .map(
      ({ name, text }): BadBody => ({
        what: unreadableWhat(name, text),
        raw: rawOf({ ...good, [name]: text }),
        field: name,
      }),
    )
  return [...values, ...missing, ...foreign, ...twice, ...unreadable]
}

/**
 * Control characters, line ends, direction marks, fillers, joiners, selectors, tags, and other invisible characters.
 */
const UNREADABLE = [
  ...['\n', '\u001b[31m', '\u007f', '\u2028', '\u202a', '\u202e', '\u2066', '\u2069', '\u200e', '\u200f'],
  ...['\u3164', '\u2800', '\u115f', '\u1160', '\uffa0', '\ufe0f', '\u200b', '\u200d', '\u{e0001}', '\u{e007f}'],
]
  .map((text) => `a${text}b`)
  .concat(' ', '  \t ', '\u00a0\u3000', '\u200b', '\u3164', '\u2800')

const unreadableWhat = (name: string, text: string): string => `${name} is the unreadable ${shown(text)}`

/** Whether a bad body carries an unreadable value for this name. */
export const isUnreadable = ({ what }: BadBody, name: string): boolean => what.startsWith(`${name} is the unreadable `)

const nested = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`

/** Texts that are no body at all, for any route. */
export const NO_BODIES: readonly BadBody[] = [
  ...['{', '{"a"', '{"a":}', '{} {}', "{'a':1}", '{"a":1,}', 'undefined', 'NaN', '\u0000', '{"a":"\u0001"}', '<a/>'],
  ...['null', 'true', '1', '"x"', '[]', '[{}]'],
  ...[nested(100), `{"a":${nested(64)}}`, `{"a":${nested(100_000)}}`, '['.repeat(100_000), '{"a":'.repeat(100_000)],
  // What is nested too deeply has a name where it stands in a member.
].map((raw): BadBody => ({ what: raw.slice(0, 20), raw, field: /^\{"a":(?:\[\[|\{"a")/.test(raw) ? 'a' : null }))

/** An empty body, for routes that require one. */
export const EMPTY: BadBody = { what: 'an empty body', raw: '', field: null }

/** A schema that takes no member. */
export const NOTHING = t.Object({}, { additionalProperties: false })
