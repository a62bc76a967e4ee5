// What a client sent, against the schema of a route.
import { flawOf } from '../../lib/flaw.ts'
import { isBlank, isReadable, isStorable } from '../../lib/readable-text.ts'
import { repeatedKey } from '../../lib/repeated-key.ts'
import type { Static, TSchema } from '../../lib/schema.ts'
import { GatewayError } from '../../wire/errors.ts'

/** The value, typed; throws 400 naming the field. */
export const checked = <Schema extends TSchema>(schema: Schema, value: unknown): Static<Schema> => {
  const flaw = flawOf(schema, value)
  if (flaw !== null) throw new GatewayError('invalid_request', flaw.message, { param: paramOf(flaw.param) })
  return value as Static<Schema>
}

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

/** Names that people read in lists, terminals and reports. A prompt, a reason or a secret may have lines. */
const NAMES: readonly string[] = ['name', 'slug', 'aliases']

/** Throws 400 naming the field: for a member that was sent twice, for text that could not be stored, and for a name that could not be read. */
export const requireSoundBody = (body: Record<string, unknown>, raw: string): void => {
  const repeated = repeatedKey(raw)
  if (repeated !== null) throw new GatewayError('invalid_request', `"${repeated}" was sent twice`, { param: repeated })
  requireStorable(body)
  for (const param of NAMES) {
    for (const text of [body[param]].flat()) {
      if (typeof text !== 'string') continue
      const refused = (rule: string) => new GatewayError('invalid_request', `"${param}" must not ${rule}`, { param })
      if (isBlank(text)) throw refused('consist of blanks')
      if (!isReadable(text)) throw refused('hold control characters, nor such as turn the direction of text')
    }
  }
}

/** `capabilities.0` -> `capabilities`: the field that was sent, not the place within its list. */
const paramOf = (path: string): string | null => path.replace(/(?:\.\d+)+$/, '') || null
