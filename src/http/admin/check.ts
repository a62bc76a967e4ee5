// What a client sent, against the schema of a route.
import { flawOf } from '../../lib/flaw.ts'
import type { Static, TSchema } from '../../lib/schema.ts'
import { GatewayError } from '../../wire/errors.ts'

/** The value, typed; throws 400 naming the field. */
export const checked = <Schema extends TSchema>(schema: Schema, value: unknown): Static<Schema> => {
  const flaw = flawOf(schema, value)
  if (flaw !== null) throw new GatewayError('invalid_request', flaw.message, { param: paramOf(flaw.param) })
  return value as Static<Schema>
}

/** Whether a log of JSON and a database keep a text unchanged: one without NUL characters and halves of surrogate pairs. */
export const isStorable = (text: string): boolean => !text.includes('\u0000') && text.isWellFormed()

/** Throws 400 naming the field that holds text which could not be stored. */
export const requireStorable = (value: unknown, path = ''): void => {
  if (typeof value === 'string') {
    if (isStorable(value)) return
    throw new GatewayError('invalid_request', `"${path}" holds characters that cannot be stored`, { param: path })
  }
  if (value === null || typeof value !== 'object') return
  for (const [name, member] of Object.entries(value)) {
    const at = path === '' ? name : `${path}.${name}`
    requireStorable(name, at)
    requireStorable(member, at)
  }
}

/** `capabilities.0` -> `capabilities`: the field that was sent, not the place within its list. */
const paramOf = (path: string): string | null => path.replace(/(?:\.\d+)+$/, '') || null
