// Where a keyword stands while a schema is compiled: what it may ask for, and how it complains.
import type { Assertion, SchemaNode } from './run.ts'

/** The schema cannot be used; the message says where and why. */
export class SchemaFlaw extends Error {
  override readonly name = 'SchemaFlaw'
  constructor(
    message: string,
    /** Where, as a JSON pointer (`#/properties/city/type`). Null: the schema as a whole, or it is not known. */
    readonly pointer: string | null = null,
  ) {
    super(message)
  }
}

/** A pattern that takes time in proportion to its size and the text's, whatever both are. */
export interface SchemaPattern {
  /** About the steps for each eight characters of text. */
  readonly size: number
  test(text: string): boolean
}

export interface Site {
  /** The schema object that the keyword is a member of. */
  readonly schema: Readonly<Record<string, unknown>>
  readonly isDraft7: boolean
  /** A schema below this one that looks at the same value. */
  inPlace(schema: unknown, path: string): SchemaNode
  /** A schema below this one that looks at members of the value. */
  member(schema: unknown, path: string): SchemaNode
  /** What a reference leads to: it looks at the same value. */
  referred(reference: string, keyword: string): SchemaNode
  /** Of a dynamic reference: the node, or what stands under its anchor in the outermost resource that was entered. */
  referredDynamically(reference: string): Assertion
  pattern(source: string, path: string): SchemaPattern
  flaw(path: string, what: string): SchemaFlaw
}

/** Compiles one keyword; null when it says nothing here. */
export type Keyword = (value: unknown, site: Site) => Assertion | null

export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  value !== null && typeof value === 'object' && !Array.isArray(value)

export const recordOf = (value: unknown, name: string, site: Site): Readonly<Record<string, unknown>> => {
  if (!isRecord(value)) throw site.flaw(name, 'must be an object')
  return value
}

export const stringsOf = (value: unknown, name: string, site: Site): readonly string[] => {
  if (!Array.isArray(value) || !value.every((item) => typeof item === 'string'))
    throw site.flaw(name, 'must be a list of names')
  return value
}

export const countOf = (value: unknown, name: string, site: Site): number => {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0)
    throw site.flaw(name, 'must be a whole number of at least 0')
  return value
}

/** Steps for texts: eight characters cost about one. */
export const textSteps = (text: string): number => 1 + (text.length >> 3)

export const shownName = (name: string): string => JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}…` : name)
