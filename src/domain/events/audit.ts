// Events of `gateway.audit.v1`: each decision that counts, as analytics and compliance teams read it. Written by the
// projection worker.
import { type Static, t } from '../../lib/schema/schema.ts'
import { Nullable } from '../kernel/fields.ts'

export const AuditRecorded = t.Object({
  decision_id: t.String({
    description: 'Id of the decision: also the id of the event, by which readers drop repeats.',
  }),
  log_offset: t.Integer({ minimum: 0, description: 'Its offset in the control topic: their order.' }),
  at: t.String({ description: 'The writer’s clock, RFC 3339.' }),
  actor: t.Object(
    { type: t.String(), id: t.String() },
    { description: 'Who decided, by id: `key`, `operator` or `system`.' },
  ),
  changes: t.Array(
    t.Object({
      action: t.String({ description: '`create`, `update`, `delete`, `rotate`, `revoke`, `kill`, ...' }),
      resource: t.String({ description: '`provider`, `model`, `tenant`, `api_key`, `policy`, ...' }),
      subject_id: t.String({ description: 'Id of what was changed.' }),
      tenant_id: Nullable(t.String(), 'The tenant that it belongs to.'),
      before: t.Unknown({
        description:
          'The row, secrets masked; null when there was none, or when the event would be too large with it ' +
          '(`truncated`).',
      }),
      after: t.Unknown({ description: 'The row afterwards, likewise; null when it was deleted.' }),
      removed: t.Record(t.String(), t.Integer({ minimum: 0 }), { description: 'Rows that fell with it, by table.' }),
    }),
    { description: 'What the decision changed.' },
  ),
  truncated: t.Boolean({
    description: 'True when rows, or changes beyond the first hundred, were left out to stay below 64 KiB.',
  }),
  reverts: t.Optional(t.String({ description: 'Id of the decision that this one takes back.' })),
})
export type AuditRecorded = Static<typeof AuditRecorded>

export const AUDIT_EVENTS = { 'audit.recorded': AuditRecorded } as const
