// `status: active | disabled`, for which `enabled: boolean` is accepted.
import type { Status } from '../../domain/kernel/fields.ts'
import { t } from '../../lib/schema/schema.ts'
import { GatewayError } from '../../wire/errors.ts'

/** Fields of a body that say whether something is in use. `enabled` is another word for `active`. */
export const Switch = {
  status: t.Optional(t.Union([t.Literal('active'), t.Literal('disabled'), t.Literal('enabled')])),
  enabled: t.Optional(t.Boolean()),
}

/** What the body says, undefined when nothing; throws 400 when its two fields contradict each other. */
export const statusOf = (body: { status?: Status | 'enabled'; enabled?: boolean }): Status | undefined => {
  const said = body.status === 'enabled' ? 'active' : body.status
  if (body.enabled === undefined) return said
  const meant = body.enabled ? 'active' : 'disabled'
  if (said !== undefined && said !== meant) {
    throw new GatewayError('invalid_request', '"status" and "enabled" contradict each other', { param: 'enabled' })
  }
  return meant
}
