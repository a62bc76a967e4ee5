// gateway.operations.v1 -> probes: the newest of each provider, from any instance.
import { HEALTH_EVENTS, MOST_PROBES, type ProbeRecorded } from '../../src/domain/events/health.ts'
import type { LogRecord } from '../../src/log/port.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { storableJson, type Transaction } from '../database.ts'
import { foldOfType } from '../one-type.ts'
import type { Build, Folded, Projection } from '../projection.ts'
import schema from './schema.sql' with { type: 'text' }

const DAY_MS = 86_400_000

export interface ProbeRow extends Omit<ProbeRecorded, 'provider'> {
  readonly instance: string
  readonly epoch: string
  readonly sequence: number
  readonly log_partition: number
  readonly log_offset: number
  readonly logAtMs: number
}

const TYPE = 'probe.recorded'

const fold = foldOfType(
  TYPE,
  HEALTH_EVENTS[TYPE],
  ({ provider: _, ...probe }, origin, record, place: Pick<ProbeRow, 'log_partition' | 'logAtMs'>): ProbeRow => ({
    ...{ ...probe, ...origin, ...place },
    log_offset: record.offset,
  }),
)

/** How the read model folds one record; the frames set aside what is no envelope. */
export const foldProbeRecord = (record: LogRecord, logAtMs: number, partition: number): Folded<ProbeRow> =>
  fold(record, { log_partition: partition, logAtMs })

const COLUMNS = `provider_id text, at_ms bigint, instance text, epoch text, sequence bigint, trigger text,
  ok boolean, latency_ms bigint, error_code text,
  upstream_status bigint, models bigint, log_partition integer, log_offset bigint`
const NAMES = COLUMNS.split(',').map((column) => column.trim().split(' ')[0]!)

const compareText = (a: string, b: string): number => (a === b ? 0 : a < b ? -1 : 1)
const compare = (a: ProbeRow, b: ProbeRow): number =>
  compareText(a.provider_id, b.provider_id) ||
  a.at_ms - b.at_ms ||
  compareText(a.instance, b.instance) ||
  compareText(a.epoch, b.epoch) ||
  a.sequence - b.sequence

/** Leaves the newest of each provider, in whatever order they came. `providers`: those that got some; null: all. */
const prune = async (sql: Transaction, { schemaName }: Build, providers: readonly string[] | null): Promise<void> => {
  const probe = sql(`${schemaName}.probe`)
  await sql`
    delete from ${probe} held using (
      select provider_id, at_ms, instance, epoch, sequence,
        row_number() over (partition by provider_id
          order by at_ms desc, instance desc, epoch desc, sequence desc) as place
      from ${probe} ${providers === null ? sql`` : sql`where provider_id in ${sql(providers)}`}) placed
    where placed.place > ${MOST_PROBES}
      and (held.provider_id, held.at_ms, held.instance, held.epoch, held.sequence)
        = (placed.provider_id, placed.at_ms, placed.instance, placed.epoch, placed.sequence)`
}

/** `keepDays`: as long as single requests are kept; a deleted provider leaves nothing for ever. */
export const probesModel = (keepDays: number): Projection<ProbeRow> => ({
  name: 'probes',
  version: 1,
  topic: TOPICS.operations.name,
  only: TYPE,
  schema,
  async open({ partition }) {
    return { fold: (record, logAtMs) => foldProbeRecord(record, logAtMs, partition), tip: () => null }
  },
  async write(sql, build, rows) {
    const probe = sql(`${build.schemaName}.probe`)
    const newest = rows.reduce((day, { logAtMs }) => Math.max(day, Math.floor(logAtMs / DAY_MS)), 0)
    // The row stays locked until the end: of two partitions one writes after the other, and sees what that one wrote.
    const [known] = await sql<{ day: number }[]>`
      insert into ${sql(`${build.schemaName}.newest_day`)} as kept (day) values (${newest})
      on conflict (one) do update set day = greatest(kept.day, excluded.day) returning day`
    const keptMs = (known!.day - keepDays) * DAY_MS
    await sql`delete from ${probe} where at_ms < ${keptMs}`
    const kept = rows.filter(({ at_ms }) => at_ms >= keptMs).sort(compare)
    if (kept.length === 0) return
    await sql.unsafe(
      `insert into "${build.schemaName}".probe (${NAMES.join(', ')})
       select ${NAMES.join(', ')} from json_to_recordset($1::text::json) as new (${COLUMNS}) on conflict do nothing`,
      [storableJson(kept)],
      { prepare: true },
    )
    await prune(sql, build, [...new Set(kept.map(({ provider_id }) => provider_id))])
  },
  async carryOver(sql, from, to) {
    await sql`
      insert into ${sql(`${to.schemaName}.probe`)}
      select * from ${sql(`${from.schemaName}.probe`)} held
      where not exists (
        select 1 from gatelog.position p
        where p.model = ${to.model} and p.build = ${to.build} and p.partition = held.log_partition
        and p.first_offset <= held.log_offset)
      on conflict do nothing`
    await prune(sql, to, null)
  },
})
