// How far the read models are: rows that the gateway reads for `/ready` and `/metrics`.
import type { Sql } from './database.ts'
import type { ModelView } from './keep.ts'

export interface ModelStatus {
  readonly model: string
  readonly worker: string
  /**
   * `live`: applying. `building`: a new build catches up beside the old. `follower`: another worker owns it. `waiting`:
   * for Postgres or the log.
   */
  readonly state: 'starting' | 'live' | 'building' | 'follower' | 'waiting'
  readonly detail: string
  /** How old the oldest record is that is in the log and not in the table. */
  readonly lagMs: number
  readonly behindRecords: number
  /** Records set aside by this worker since it started. */
  readonly poison: number
}

export const statusOf = (model: string, worker: string, view: ModelView, nowMs: number): ModelStatus => {
  const partitions = [...view.partitions]
  let lagMs = 0
  let behindRecords = 0
  for (const [partition, { next, pendingAtMs }] of partitions) {
    const known = view.ends.get(partition)
    const behind = Math.max(0, (known?.end ?? 0) - next)
    behindRecords += behind
    if (pendingAtMs !== null) lagMs = Math.max(lagMs, nowMs - pendingAtMs)
    else if (known !== undefined && behind > 0) lagMs = Math.max(lagMs, nowMs - known.sinceMs)
  }
  const states = partitions.map(([, { state }]) => state)
  const state =
    (['waiting', 'starting', 'follower'] as const).find((each) => states.includes(each)) ??
    (view.build === null ? 'waiting' : view.build.state === 'building' ? 'building' : 'live')
  const detail = partitions.map(([, progress]) => progress.detail).find((text) => text !== '') ?? view.detail
  const poison = partitions.reduce((sum, [, progress]) => sum + progress.poison, 0)
  return { model, worker, state, detail, lagMs: Math.max(0, lagMs), behindRecords, poison }
}

/**
 * One flushed commit, whatever the session's default: everything that was committed before is then on disk too. A
 * follower leaves the owner's row alone.
 */
export const writeStatus = async (sql: Sql, status: readonly ModelStatus[]): Promise<void> => {
  await sql.begin(async (transaction) => {
    await transaction`set local synchronous_commit = on`
    await transaction`
      insert into gatelog.status as s (model, worker, state, detail, lag_ms, behind_records, poison, reported_at)
      select model, worker, state, detail, lag_ms, behind_records, poison, now()
      from json_to_recordset(${JSON.stringify(
        status.map(({ lagMs, behindRecords, ...row }) => ({ ...row, lag_ms: lagMs, behind_records: behindRecords })),
      )}::text::json) as r (model text, worker text, state text, detail text, lag_ms bigint,
        behind_records bigint, poison bigint)
      order by model
      on conflict (model) do update set worker = excluded.worker, state = excluded.state, detail = excluded.detail,
        lag_ms = excluded.lag_ms, behind_records = excluded.behind_records, poison = excluded.poison,
        reported_at = excluded.reported_at
      where excluded.state <> 'follower' or s.worker = excluded.worker or s.reported_at < now() - interval '10 seconds'`
  })
}

/** Below which offset every build has applied a partition. Read before the flushed commit that makes it durable. */
export const durableOffsets = (sql: Sql) =>
  sql<{ topic: string; partition: number; next: number }[]>`
    select p.topic, p.partition, min(p.next_offset) as next from gatelog.position p
    group by p.topic, p.partition
    having count(*) = (select count(*) from gatelog.build b where b.topic = p.topic)
    order by p.topic, p.partition`

export interface StoredStatus {
  readonly model: string
  readonly state: ModelStatus['state']
  readonly detail: string
  readonly lag_ms: number
  readonly behind_records: number
  readonly poison: number
  /** Age of the report: an old one means that no worker runs. */
  readonly age_ms: number
}

/** The last reports, for `/ready` and `/metrics`. */
export const readStatus = (sql: Sql): Promise<StoredStatus[]> =>
  sql<StoredStatus[]>`
    select s.model, s.state, s.detail, s.lag_ms, s.behind_records,
      (select count(*) from gatelog.poison p join gatelog.build b using (model, build)
        where p.model = s.model and b.state = 'active') as poison,
      greatest(0, extract(epoch from now() - s.reported_at) * 1000)::bigint as age_ms
    from gatelog.status s order by s.model`
