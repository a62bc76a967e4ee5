// Checks what a client sent against the schema of a route.
import { unsoundName } from '../../domain/kernel/names.ts'
import { inexactNumber } from '../../lib/json/inexact-number.ts'
import { repeatedKey } from '../../lib/json/repeated-key.ts'
import { firstError } from '../../lib/schema/first-error.ts'
import type { Static, TSchema } from '../../lib/schema/schema.ts'
import { isStorable } from '../../lib/text/storable-text.ts'
import { GatewayError } from '../../wire/errors.ts'

/** The value, typed; throws 400 naming the field. */
export const checked = <Schema extends TSchema>(schema: Schema, value: unknown): Static<Schema> => {
  const problem = firstError(schema, value)
  if (problem !== null) throw new GatewayError('invalid_request', problem.message, { param: paramOf(problem.param) })
  return value as Static<Schema>
}

/** Throws 400 naming the field that holds text that cannot be stored. */
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

/**
 * Throws 400 naming the field: for a member that was sent twice, for a number that would be rounded, for text that
 * cannot be stored, and for a name with characters that cannot be read.
 */
export const requireValidBody = (body: Record<string, unknown>, raw: string): void => {
  const repeated = repeatedKey(raw)
  if (repeated !== null) throw new GatewayError('invalid_request', `"${repeated}" was sent twice`, { param: repeated })
  const inexact = inexactNumber(raw)
  if (inexact !== null) {
    const message = `"${inexact}" holds a number that would not be kept as it was sent; send it as a string`
    throw new GatewayError('invalid_request', message, { param: inexact })
  }
  requireStorable(body)
  // A request that takes an override back may name a target that can no longer be given.
  const { target, ...rest } = body
  const problem = unsoundName(body.enabled === false ? rest : { target, ...rest })
  if (problem === null) return
  const param = paramOf(problem.path.join('.'))
  throw new GatewayError('invalid_request', `"${param}" ${problem.rule}`, { param })
}

/** `capabilities.0` -> `capabilities`: the field that was sent, not the place within its list. */
const paramOf = (path: string): string | null => path.replace(/(?:\.\d+)+$/, '') || null
