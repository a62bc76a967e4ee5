// What an instance says of itself in `gateway.instances.v1`, once a second and when something is urgent. Stored for a day.
import { type Static, t } from '../lib/schema.ts'
import { ToldList } from '../state/failed-logins.ts'

/** More are not told: the announcement stays small. */
export const OPEN_BREAKERS_TOLD = 64

export const InstanceAnnounced = t.Object({
  instance: t.String({ maxLength: 128 }),
  /** Next offset of the control topic to fold; tip and digest of the state there. */
  offset: t.Integer({ minimum: 0 }),
  tip: t.String(),
  digest: t.String(),
  fold_version: t.Integer(),
  /** The newest event version that its build knows. */
  event_version: t.Integer(),
  build: t.String({ maxLength: 128 }),
  degraded: t.Union([t.String(), t.Null()]),
  /** Models whose circuit breakers it has open. */
  open_breakers: t.Optional(t.Array(t.String({ maxLength: 64 }), { maxItems: OPEN_BREAKERS_TOLD })),
  /** Who failed to log in there, by digests. */
  failed_logins: t.Optional(ToldList),
})
export type InstanceAnnounced = Static<typeof InstanceAnnounced>
