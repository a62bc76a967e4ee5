// The interface of a keyword to the compiler: the schema around it, and how it reports errors.
import type { Assertion, SchemaNode } from './run.ts'

/** The schema cannot be used; the message states where and why. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError'
  constructor(
    message: string,
    /** JSON pointer of the error (`#/properties/city/type`). Null for the schema as a whole, or when unknown. */
    readonly pointer: string | null = null,
  ) {
    super(message)
  }
}

/** A pattern whose time is proportional to its size and the length of the text. */
export interface SchemaPattern {
  /** About the steps for each eight characters of text. */
  readonly size: number
  /** Null: RE2 cannot compile it, so that it is not known what matches. */
  readonly test: ((text: string) => boolean) | null
}

export interface Site {
  /** The schema object that has the keyword. */
  readonly schema: Readonly<Record<string, unknown>>
  readonly isDraft7: boolean
  /** A subschema that is applied to the same value. */
  inPlace(schema: unknown, path: string): SchemaNode
  /** A subschema that is applied to members of the value. */
  member(schema: unknown, path: string): SchemaNode
  /** The target of a reference, which is applied to the same value. */
  referred(reference: string, keyword: string): SchemaNode
  /** Checks a dynamic reference: its node, or the one with its anchor in the outermost resource that was entered. */
  referredDynamically(reference: string): Assertion
  /** `name`: where within the keyword it stands, null for the keyword itself. */
  pattern(source: string, keyword: string, name: string | null): SchemaPattern
  /** Whether `format` is checked; else it is an annotation. */
  readonly assertsFormats: boolean
  error(path: string, what: string): SchemaError
}

/** Compiles one keyword; null when it has no effect here. */
export type Keyword = (value: unknown, site: Site) => Assertion | null

export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  value !== null && typeof value === 'object' && !Array.isArray(value)

export const recordOf = (value: unknown, name: string, site: Site): Readonly<Record<string, unknown>> => {
  if (!isRecord(value)) throw site.error(name, 'must be an object')
  return value
}

export const stringsOf = (value: unknown, name: string, site: Site): readonly string[] => {
  if (!Array.isArray(value) || !value.every((item) => typeof item === 'string'))
    throw site.error(name, 'must be a list of names')
  return value
}

export const countOf = (value: unknown, name: string, site: Site): number => {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0)
    throw site.error(name, 'must be a whole number of at least 0')
  return value
}

/** Steps for a text: one for eight characters. */
export const textSteps = (text: string): number => 1 + (text.length >> 3)

export const shownName = (name: string): string => JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}…` : name)
