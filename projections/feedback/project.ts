// gateway.requests.v1 -> feedback. Reads the same topic as the request log and takes one type of event of it.
import { FEEDBACK_EVENTS, type FeedbackGiven } from '../../src/domain/events/feedback.ts'
import type { LogRecord } from '../../src/log/port.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { storableJson } from '../database.ts'
import { foldOfType } from '../one-type.ts'
import type { Folded, Projection } from '../projection.ts'
import schema from './schema.sql' with { type: 'text' }

export interface FeedbackRow extends FeedbackGiven {
  readonly log_partition: number
  readonly log_offset: number
}

const TYPE = 'feedback.given'

/** How the read model folds one record; the request log sets aside what is no envelope. */
export const foldFeedbackRecord: (record: LogRecord, partition: number) => Folded<FeedbackRow> = foldOfType(
  TYPE,
  FEEDBACK_EVENTS[TYPE],
  (data, _, record, partition: number) => ({ ...data, log_partition: partition, log_offset: record.offset }),
)

const keyOf = ({ tenant_id, request, metric }: FeedbackRow): string => JSON.stringify([tenant_id, request, metric])
const isLater = (a: FeedbackRow, b: FeedbackRow): boolean => a.at_ms > b.at_ms || (a.at_ms === b.at_ms && a.id > b.id)

/** The latest of each, in key order: one statement must not touch a row twice. */
const latestOfEach = (rows: readonly FeedbackRow[]): readonly FeedbackRow[] => {
  const latest = new Map<string, FeedbackRow>()
  for (const row of rows) {
    const held = latest.get(keyOf(row))
    if (held === undefined || isLater(row, held)) latest.set(keyOf(row), row)
  }
  return [...latest].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row)
}

const COLUMNS = `tenant_id text, request text, metric text, id text, at_ms bigint, request_id text, key_id text,
  provider_id text,
  model_id text, score double precision, comment text, tags jsonb, log_partition integer, log_offset bigint`
const NAMES = COLUMNS.split(',').map((column) => column.trim().split(' ')[0]!)
const KEY = ['tenant_id', 'request', 'metric']

export const feedbackProjection: Projection<FeedbackRow> = {
  name: 'feedback',
  version: 1,
  topic: TOPICS.requests.name,
  only: TYPE,
  schema,
  async open({ partition }) {
    return { fold: (record) => foldFeedbackRecord(record, partition), tip: () => null }
  },
  async write(sql, build, rows) {
    const others = NAMES.filter((name) => !KEY.includes(name))
    await sql.unsafe(
      `insert into "${build.schemaName}".feedback as held (${NAMES.join(', ')})
       select ${NAMES.join(', ')} from json_to_recordset($1::text::json) as new (${COLUMNS})
       on conflict (${KEY.join(', ')}) do update set ${others.map((name) => `${name} = excluded.${name}`).join(', ')}
       where (excluded.at_ms, excluded.id) > (held.at_ms, held.id)`,
      [storableJson(latestOfEach(rows))],
      { prepare: true },
    )
  },
  async carryOver(sql, from, to) {
    await sql`
      insert into ${sql(`${to.schemaName}.feedback`)}
      select * from ${sql(`${from.schemaName}.feedback`)} held
      where not exists (
        select 1 from gatelog.position p
        where p.model = ${to.model} and p.build = ${to.build} and p.partition = held.log_partition
        and p.first_offset <= held.log_offset)
      on conflict do nothing`
  },
}
