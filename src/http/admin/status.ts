// `status: active | disabled`, for which `enabled: boolean` is accepted.
import type { Status } from '../../domain/kernel/fields.ts'
import { t } from '../../lib/schema/schema.ts'
import { GatewayError } from '../../wire/errors.ts'

/** Fields of a body for whether something is in use. `enabled` is a synonym of `active`. */
export const Switch = {
  status: t.Optional(t.Union([t.Literal('active'), t.Literal('disabled'), t.Literal('enabled')])),
  enabled: t.Optional(t.Boolean()),
}

/** The status in the body, undefined without one. Throws 400 when its two fields contradict each other. */
export const statusOf = (body: { status?: Status | 'enabled'; enabled?: boolean }): Status | undefined => {
  const said = body.status === 'enabled' ? 'active' : body.status
  if (body.enabled === undefined) return said
  const meant = body.enabled ? 'active' : 'disabled'
  if (said !== undefined && said !== meant) {
    throw new GatewayError('invalid_request', '"status" and "enabled" contradict each other', { param: 'enabled' })
  }
  return meant
}
