// What `/metrics` is told of the parts that `http/` does not see: the worker's reports and the sender.
import type { Sql } from '../../projections/database.ts'
import { readStatus } from '../../projections/status.ts'
import type { ProjectionView, SendingView } from '../http/telemetry.ts'
import type { SenderStatus } from '../log/sender-thread.ts'

/** How far the read models are, by the worker's last reports. Rejects while Postgres is away. */
export const projectionViews = async (sql: Sql): Promise<readonly ProjectionView[]> =>
  (await readStatus(sql)).map(({ model, lag_ms, behind_records, poison, age_ms }) => ({
    model,
    lagMs: Number(lag_ms),
    behindRecords: Number(behind_records),
    poisonRecords: Number(poison),
    ageMs: Number(age_ms),
  }))

/** All spools that are shipped, together. Null where nothing is shipped: embedded, or not yet begun. */
export const sendingView = (status: SenderStatus | null): SendingView | null => {
  if (status === null) return null
  const sum = (of: 'shipped' | 'resent' | 'refused' | 'damagedBytes') =>
    status.spools.reduce((total, spool) => total + spool[of], 0)
  return {
    stuck: status.problem !== null,
    shipped: sum('shipped'),
    resent: sum('resent'),
    refused: sum('refused'),
    damagedBytes: sum('damagedBytes'),
    lagMs: Math.max(0, ...status.spools.map(({ lagMs }) => lagMs)),
  }
}
