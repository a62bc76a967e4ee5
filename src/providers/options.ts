// The schemas by which a kind describes a provider's `options`. A value that the kind would not use is refused when it
// is written, not ignored.
import { type TSchema, t } from '../lib/schema/schema.ts'

/** The schema of each option by name. Null is always allowed and means that the option is not set. */
export type Options = Readonly<Record<string, TSchema>>

/** A text of this form; `what` ends the sentence "it must be ...". */
export const textOption = (form: RegExp, what: string): TSchema =>
  t.String({ maxLength: 2_048, pattern: form.source, description: what })

export const oneOf = (...words: readonly string[]): TSchema => t.Union(words.map((word) => t.Literal(word)))

export const SWITCH: TSchema = t.Boolean()

export const countOption = (least: number): TSchema => t.Integer({ minimum: least, maximum: 1_000_000_000 })

/** Names of fields of a request. */
export const FIELD_NAMES: TSchema = t.Array(t.String({ minLength: 1, maxLength: 128 }), { maxItems: 64 })

/** A name in a header: of an account, a project, a version. */
export const HEADER_NAME = /^[\w.-]{1,128}$/
/** A sentence or an address in a header. */
export const HEADER_TEXT = /^[\x21-\x7e](?:[\x20-\x7e]{0,198}[\x21-\x7e])?$/

export const headerName = (what: string): TSchema =>
  textOption(HEADER_NAME, `${what}: letters, digits, dots and hyphens, at most 128`)
export const headerText = (what: string): TSchema =>
  textOption(HEADER_TEXT, `${what}: printable ASCII, at most 200 characters`)
