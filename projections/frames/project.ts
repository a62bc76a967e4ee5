// gateway.operations.v1 -> frames. A request names the frame by which it was planned; explaining a request makes that
// frame again from these rows.
import { HEALTH_EVENTS } from '../../src/domain/events/health.ts'
import type { LogRecord } from '../../src/log/port.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { storableJson } from '../database.ts'
import { foldOfType } from '../one-type.ts'
import type { Folded, Projection } from '../projection.ts'
import schema from './schema.sql' with { type: 'text' }

const DAY_MS = 86_400_000

export interface FrameRecordRow {
  readonly instance: string
  readonly epoch: string
  readonly number: number
  readonly part: number
  readonly parts: number
  readonly whole: boolean
  readonly at_ms: number
  /** JSON text. */
  readonly candidates: string
  readonly log_partition: number
  readonly log_offset: number
  readonly logAtMs: number
}

const TYPE = 'frame.taken'

const fold = foldOfType(
  TYPE,
  HEALTH_EVENTS[TYPE],
  (
    { number, part, parts, whole, at_ms, candidates },
    { instance, epoch },
    record,
    place: Pick<FrameRecordRow, 'log_partition' | 'logAtMs'>,
  ): FrameRecordRow => ({
    ...{ instance, epoch, number, part, parts, whole, at_ms, candidates: JSON.stringify(candidates) },
    ...place,
    log_offset: record.offset,
  }),
  true,
)

/** How the read model folds one record. Pure: the same record gives the same rows. */
export const foldFrameRecord = (record: LogRecord, logAtMs: number, partition: number): Folded<FrameRecordRow> =>
  fold(record, { log_partition: partition, logAtMs })

const COLUMNS = `instance text, epoch text, number bigint, part integer, parts integer, whole boolean,
  at_ms bigint, candidates text,
  log_partition integer, log_offset bigint`
const NAMES = COLUMNS.split(',').map((column) => column.trim().split(' ')[0]!)

const compare = (a: FrameRecordRow, b: FrameRecordRow): number => {
  if (a.instance !== b.instance) return a.instance < b.instance ? -1 : 1
  if (a.epoch !== b.epoch) return a.epoch < b.epoch ? -1 : 1
  return a.number - b.number || a.part - b.part || a.log_offset - b.log_offset
}

/** `keepDays`: as long as single requests are kept. */
export const framesModel = (keepDays: number): Projection<FrameRecordRow> => ({
  name: 'frames',
  version: 1,
  topic: TOPICS.operations.name,
  schema,
  async open({ partition }) {
    return { fold: (record, logAtMs) => foldFrameRecord(record, logAtMs, partition), tip: () => null }
  },
  async write(sql, build, rows) {
    const frame = sql(`${build.schemaName}.frame`)
    const newest = rows.reduce((day, { logAtMs }) => Math.max(day, Math.floor(logAtMs / DAY_MS)), 0)
    const [known] = await sql<{ before: number | null; day: number }[]>`
      with held as (select day from ${sql(`${build.schemaName}.newest_day`)})
      insert into ${sql(`${build.schemaName}.newest_day`)} as kept (day) values (${newest})
      on conflict (one) do update set day = greatest(kept.day, excluded.day)
      returning (select day from held) as before, day`
    const keptMs = (known!.day - keepDays) * DAY_MS
    if (known!.before !== known!.day) await sql`delete from ${frame} where at_ms < ${keptMs}`
    const kept = rows.filter(({ at_ms }) => at_ms >= keptMs).sort(compare)
    if (kept.length === 0) return
    // A record that was written twice, since its writer got no confirmation of the first, has the same content.
    await sql.unsafe(
      `insert into "${build.schemaName}".frame (${NAMES.join(', ')})
       select ${NAMES.join(', ')} from json_to_recordset($1::text::json) as new (${COLUMNS}) on conflict do nothing`,
      [storableJson(kept)],
      { prepare: true },
    )
  },
  async carryOver(sql, from, to) {
    await sql`
      insert into ${sql(`${to.schemaName}.frame`)}
      select * from ${sql(`${from.schemaName}.frame`)} held
      where not exists (
        select 1 from gatelog.position p
        where p.model = ${to.model} and p.build = ${to.build} and p.partition = held.log_partition
        and p.first_offset <= held.log_offset)
      on conflict do nothing`
  },
})
