// Events of `gateway.operations.v1` about logins that came to nothing. A stranger can cause them, so they are no decisions. Names of people are keyed digests;
// addresses stand in the clear, for as long as the topic is kept. Stored for ever once shipped.
import { type Static, t } from '../lib/schema.ts'
import { Nullable } from './fields.ts'

const Name = t.String({ minLength: 1, maxLength: 128 })
const Address = t.String({ minLength: 1, maxLength: 64 })

export const LoginFailed = t.Object({
  /** Unix milliseconds. */
  at_ms: t.Integer(),
  /** HMAC of the normalised name that was sent, whether or not there is such an operator. */
  name_digest: Name,
  address: Address,
})

/** No login is tried for this name, or from this address, until then. */
export const LoginLocked = t.Object({
  at_ms: t.Integer(),
  name_digest: Nullable(Name),
  address: Nullable(Address),
  /** 1 for the first lockout in a row; each doubles the time. */
  level: t.Integer({ minimum: 1 }),
  until_ms: t.Integer(),
})

export const LOGIN_EVENTS = { 'login.failed': LoginFailed, 'login.locked': LoginLocked } as const
export type LoginEvent = {
  [Type in keyof typeof LOGIN_EVENTS]: {
    readonly type: Type
    readonly data: Static<(typeof LOGIN_EVENTS)[Type]>
  }
}[keyof typeof LOGIN_EVENTS]
