// Fields that several aggregates share, and how a write becomes the fields that it really changes.
import { type Static, type TSchema, t } from '../lib/schema.ts'
import { canonicalJson } from './tables.ts'

export const Nullable = <Schema extends TSchema>(schema: Schema) => t.Union([schema, t.Null()])

/** An id as events carry it: ours are 41 characters and shorter; what a reader accepts is wider. */
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

/** Lower case, without the hyphen/underscore and space difference: `Openai-Compatible` and `openai_compatible` are one word. */
export const normalisedWord = (text: string): string =>
  text.trim().toLowerCase().replaceAll('-', '_').replaceAll(' ', '_')

/** Without repeats (ignoring case), in order of first mention. */
export const distinct = (texts: readonly string[]): string[] => {
  const seen = new Set<string>()
  return texts.filter((text) => {
    const word = text.toLowerCase()
    return seen.has(word) ? false : seen.add(word) !== undefined
  })
}
