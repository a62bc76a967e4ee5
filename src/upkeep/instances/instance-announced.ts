// What an instance announces of itself in `gateway.instances.v1`, once a second and when something is urgent. Stored
// for a day.
import { described, Timestamp } from '../../domain/kernel/fields.ts'
import { type Static, t } from '../../lib/schema/schema.ts'
import { AnnouncedList } from '../../state/indexes/failed-logins.ts'

/** At most so many are announced: the announcement stays small. */
export const MOST_OPEN_BREAKERS = 64

export const InstanceAnnounced = t.Object({
  instance: t.String({ maxLength: 128, description: 'Who announces.' }),
  offset: t.Integer({ minimum: 0, description: 'Next offset of the control topic to fold.' }),
  tip: t.String({ description: 'Id of the last decision that counted there.' }),
  digest: t.String({ description: 'Digest of the state there: two that differ at one offset are an alarm.' }),
  fold_version: t.Integer({ description: 'Version of the fold: digests of another one are not comparable.' }),
  event_version: t.Integer({ description: 'The newest event version that its build knows.' }),
  build: t.String({ maxLength: 128, description: 'Version of its build.' }),
  degraded: t.Union([t.String(), t.Null()], { description: 'Why its state may not be the newest.' }),
  stored: t.Optional(
    t.Integer({
      minimum: 0,
      description:
        'Records of the control topic before this offset are in its data folder: a start without the brokers knows ' +
        'them.',
    }),
  ),
  started_at: t.Optional(described(Timestamp, 'When its process started.')),
  clock_ahead_ms: t.Optional(
    t.Integer({ description: 'How far its clock runs ahead of the one of the brokers; negative: behind.' }),
  ),
  open_breakers: t.Optional(
    t.Array(t.String({ maxLength: 64 }), {
      maxItems: MOST_OPEN_BREAKERS,
      description: 'Models whose circuit breakers it has open.',
    }),
  ),
  breakers_cleared_ms: t.Optional(
    t.Integer({
      minimum: 0,
      description:
        'When an operator last had all circuit breakers closed, Unix milliseconds, as it knows: it has closed ' +
        'its own since.',
    }),
  ),
  failed_logins: t.Optional(described(AnnouncedList, 'Who failed to log in there, by digests.')),
})
export type InstanceAnnounced = Static<typeof InstanceAnnounced>
