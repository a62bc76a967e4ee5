// What `gateway.audit.v1` holds: each decision that counts, as analytics and compliance teams read it. Written by the projection worker.
import { type Static, t } from '../lib/schema.ts'
import { Nullable } from './fields.ts'

export const AuditRecorded = t.Object({
  /** Id of the decision: also the id of the event, by which readers drop repeats. */
  decision_id: t.String(),
  /** Its offset in the control topic. */
  log_offset: t.Integer({ minimum: 0 }),
  /** The writer's clock, RFC 3339. */
  at: t.String(),
  actor: t.Object({ type: t.String(), id: t.String() }),
  changes: t.Array(
    t.Object({
      action: t.String(),
      resource: t.String(),
      subject_id: t.String(),
      tenant_id: Nullable(t.String()),
      /** The row, secrets masked; null when there was none, or when the event would be too large with it (`truncated`). */
      before: t.Unknown(),
      after: t.Unknown(),
      /** Rows that fell with it, by table. */
      removed: t.Record(t.String(), t.Integer({ minimum: 0 })),
    }),
  ),
  /** True when rows, or changes beyond the first hundred, were left out to stay below 64 KiB. */
  truncated: t.Boolean(),
  /** Id of the decision that this one takes back. */
  reverts: t.Optional(t.String()),
})
export type AuditRecorded = Static<typeof AuditRecorded>

export const AUDIT_EVENTS = { 'audit.recorded': AuditRecorded } as const
