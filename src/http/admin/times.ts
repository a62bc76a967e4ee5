// Times that clients send in bodies.

import { t } from '../../lib/schema/schema.ts'
import { isDay } from '../../lib/time/iso-time.ts'
import { GatewayError } from '../../wire/errors.ts'

export const Rfc3339 = t.String({
  maxLength: 64,
  pattern: '^\\d{4}-\\d\\d-\\d\\d[Tt ]\\d\\d:\\d\\d(?::\\d\\d(?:\\.\\d+)?)?(?:[Zz]|[+-]\\d\\d:\\d\\d)$',
  description: 'an RFC 3339 time with its zone',
})

/** A time as it is stored (UTC, milliseconds). Throws 400 for a time that no calendar has. */
export const storedTime = (text: string | null | undefined, param = 'expires_at'): string | null | undefined => {
  if (text === null || text === undefined) return text
  const atMs = Date.parse(text)
  if (Number.isNaN(atMs) || !isDay(text.slice(0, 10)))
    throw new GatewayError('invalid_request', `"${param}" is not a time`, { param })
  return new Date(atMs).toISOString()
}
