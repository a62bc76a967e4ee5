// Fields that several bodies and responses share: `status` with its synonym `enabled`, times, and the warnings of an
// accepted write.
import type { Status } from '../../domain/kernel/fields.ts'
import { t } from '../../lib/schema/schema.ts'
import { isDay } from '../../lib/time/iso-time.ts'
import { GatewayError } from '../../wire/errors.ts'

/** Fields of a body for whether something is in use. `enabled` is a synonym of `active`. */
export const Switch = {
  status: t.Optional(t.Union([t.Literal('active'), t.Literal('disabled'), t.Literal('enabled')])),
  enabled: t.Optional(t.Boolean()),
}

/** The status in the body, undefined without one. Throws 400 when its two fields contradict each other. */
export const statusOf = (body: { status?: Status | 'enabled'; enabled?: boolean }): Status | undefined => {
  const given = body.status === 'enabled' ? 'active' : body.status
  if (body.enabled === undefined) return given
  const switched = body.enabled ? 'active' : 'disabled'
  if (given !== undefined && given !== switched) {
    throw new GatewayError('invalid_request', '"status" and "enabled" contradict each other', { param: 'enabled' })
  }
  return switched
}

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

/**
 * The member of a response with references to names that do not exist yet. Dropped from a body, so that the response of
 * a write can be sent again.
 */
export const WARNINGS = ['warnings'] as const

/** The row with its warnings, or the bare row when there are none. */
export const withWarnings = <Row extends object>(row: Row, warnings: readonly string[]): Row =>
  warnings.length === 0 ? row : { ...row, warnings }
