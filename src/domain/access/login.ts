// Events of `gateway.operations.v1` about failed logins. Unauthenticated callers can cause them, so they are no
// decisions. Names of operators are keyed digests; addresses are stored in the clear for the retention of the topic.
// Stored for ever once shipped.
import { type Static, t } from '../../lib/schema/schema.ts'
import { described, Nullable } from '../kernel/fields.ts'

const Name = t.String({ minLength: 1, maxLength: 128 })
const Address = t.String({ minLength: 1, maxLength: 64 })

export const LoginFailed = t.Object({
  at_ms: t.Integer({ description: 'When it was tried, Unix milliseconds.' }),
  name_digest: described(Name, 'HMAC of the normalised name that was sent, whether or not there is such an operator.'),
  address: described(Address, 'Where it was tried from.'),
})

/** Logins for this name, or from this address, are refused until then. */
export const LoginLocked = t.Object({
  at_ms: t.Integer({ description: 'When it was locked, Unix milliseconds.' }),
  name_digest: Nullable(Name, 'HMAC of the normalised name that is locked; null when it is the address.'),
  address: Nullable(Address, 'The address that is locked; null when it is the name.'),
  level: t.Integer({ minimum: 1, description: '1 for the first lockout in a row; each doubles the time.' }),
  until_ms: t.Integer({ description: 'When it ends, Unix milliseconds.' }),
})

export const LOGIN_EVENTS = { 'login.failed': LoginFailed, 'login.locked': LoginLocked } as const
export type LoginEvent = {
  [Type in keyof typeof LOGIN_EVENTS]: {
    readonly type: Type
    readonly data: Static<(typeof LOGIN_EVENTS)[Type]>
  }
}[keyof typeof LOGIN_EVENTS]
