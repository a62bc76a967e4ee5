// Fields that several aggregates share, and how a write is reduced to the fields that it changes.
import { Kind, type Static, type TSchema, t } from '../../lib/schema/schema.ts'
import { Rejection } from './rejection.ts'
import { canonicalJson } from './tables.ts'

/** `description`: of the field, for the topic contracts. */
export const Nullable = <Schema extends TSchema>(schema: Schema, description?: string) =>
  t.Union([schema, t.Null()], description === undefined ? {} : { description })

/** A schema with a description of the field for readers of the topics. */
export const described = <Schema extends TSchema>(schema: Schema, description: string): Schema => ({
  ...schema,
  description,
})

/** An id in events: generated ids have at most 41 characters; readers accept longer ones. */
export const Id = t.String({ minLength: 1, maxLength: 64 })
/** `api`: made or edited through the API. `bootstrap`: owned by the seeder, which never touches the other kind. */
export const ManagedBy = t.Union([t.Literal('api'), t.Literal('bootstrap')])
export type ManagedBy = Static<typeof ManagedBy>

export const Status = t.Union([t.Literal('active'), t.Literal('disabled')])
export type Status = Static<typeof Status>

/** RFC 3339, as `new Date().toISOString()` writes it. */
export const Timestamp = t.String({ minLength: 20, maxLength: 32 })

/** The members of `wanted` that differ from the row, absent ones left out. Empty: the write would change nothing. */
export const changedFields = <Row extends object>(row: Row, wanted: Partial<Row>): Partial<Row> => {
  const changed: Partial<Row> = {}
  for (const name of Object.keys(wanted) as (keyof Row)[]) {
    if (wanted[name] !== undefined && canonicalJson(wanted[name]) !== canonicalJson(row[name]))
      changed[name] = wanted[name]
  }
  return changed
}

/**
 * Lower case, without the differences of hyphen, underscore and space: `Openai-Compatible` and `openai_compatible` are
 * one word.
 */
export const normalisedWord = (text: string): string =>
  text.trim().toLowerCase().replaceAll('-', '_').replaceAll(' ', '_')

/** Without repeats (ignoring case), in order of first mention. */
export const distinct = (texts: readonly string[]): string[] => {
  const words = new Set<string>()
  return texts.filter((text) => {
    const word = text.toLowerCase()
    return words.has(word) ? false : words.add(word) !== undefined
  })
}

/** A schema for what clients send: objects hold named members only. */
export const closed = <Schema extends TSchema>(schema: Schema): Schema => rewritten(schema, true)

/**
 * A schema for values in the log: objects may have more members, and choices may be other words. An older build must
 * take what a newer one wrote, or the two would fold different states.
 */
export const opened = <Schema extends TSchema>(schema: Schema): Schema => rewritten(schema, false)

const isChoice = (schema: TSchema): boolean =>
  schema[Kind] === 'Union' && (schema.anyOf as TSchema[]).every((member) => typeof member.const === 'string')

const rewritten = <Schema extends TSchema>(schema: Schema, close: boolean): Schema => {
  if (!close && isChoice(schema)) return t.String({ minLength: 1, maxLength: 64 }) as unknown as Schema
  const { additionalProperties, ...rest } = schema as TSchema & { [Kind]: string }
  const copy: TSchema = { ...rest, [Kind]: schema[Kind] } as TSchema
  if (schema.anyOf !== undefined) copy.anyOf = (schema.anyOf as TSchema[]).map((member) => rewritten(member, close))
  if (schema[Kind] === 'Array') copy.items = rewritten(schema.items as TSchema, close)
  if (schema[Kind] === 'Object') {
    const properties = Object.entries(schema.properties as Record<string, TSchema>)
    copy.properties = Object.fromEntries(properties.map(([name, member]) => [name, rewritten(member, close)]))
    if (close) copy.additionalProperties = false
  } else if (additionalProperties !== undefined) copy.additionalProperties = additionalProperties
  return copy as Schema
}

/** Bound of one event: a decision of several, with its frame, stays below the 64 KiB of one record. */
const MAX_EVENT_BYTES = 49_152

/** `given`: the fields of the command; the message names the largest of them. */
export const requireSmall = (what: string, data: object, given: object = data): void => {
  if (bytesOf(data) <= MAX_EVENT_BYTES) return
  const [largest] = Object.entries(given).toSorted(([, a], [, b]) => bytesOf(b) - bytesOf(a))
  const message = `${what} is too large: at most ${MAX_EVENT_BYTES} bytes of JSON`
  throw new Rejection('invalid', message, largest?.[0] ?? null)
}

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value ?? null))

/** How deep a value is nested: 0 for a text or a number. Stops counting at the limit. */
export const depthOf = (value: unknown, limit: number): number => {
  if (value === null || typeof value !== 'object' || limit === 0) return 0
  return 1 + Math.max(0, ...Object.values(value).map((member) => depthOf(member, limit - 1)))
}
