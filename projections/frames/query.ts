// Frames -> the records from which one frame is made again.
import type { FrameTaken } from '../../src/domain/events/health.ts'
import type { Sql } from '../database.ts'
import { readActive } from '../reader.ts'

export interface FrameQueries {
  /**
   * The records of a frame, from the whole one before it on, in order; null when one of them is not kept, or not read
   * yet. Throws ReadStoreUnavailable within 2 s.
   */
  at(instance: string, epoch: string, number: number): Promise<readonly FrameTaken[] | null>
}

/** Each 60th frame is whole, and none has more parts than this; what is beyond is a damaged log. */
const MOST_RECORDS = 2_000

export const frameQueries = (sql: Sql): FrameQueries => ({
  at: (instance, epoch, number) =>
    readActive(sql, 'frames', async (schemaName) => {
      const frame = sql(`${schemaName}.frame`)
      const rows = await sql<(Omit<FrameTaken, 'candidates'> & { readonly candidates: string })[]>`
        select number, part, parts, whole, at_ms, candidates from ${frame}
        where instance = ${instance} and epoch = ${epoch} and number <= ${number} and number >= (
          select max(number) from ${frame}
          where instance = ${instance} and epoch = ${epoch} and number <= ${number} and whole and part = 1)
        order by number, part limit ${MOST_RECORDS}`
      const records = rows.map(({ candidates, ...row }) => ({
        ...row,
        candidates: JSON.parse(candidates) as FrameTaken['candidates'],
      }))
      return isUnbroken(records, number) ? records : null
    }),
})

/** Whether these lead, part by part and frame by frame, from a whole frame to the one of this number. */
export const isUnbroken = (records: readonly FrameTaken[], number: number): boolean => {
  const [first, last] = [records[0], records.at(-1)]
  if (first === undefined || !first.whole || first.part !== 1) return false
  if (last!.number !== number || last!.part !== last!.parts) return false
  return records.every((record, at) => {
    const before = records[at - 1]
    if (before === undefined) return true
    return before.part < before.parts
      ? record.number === before.number && record.part === before.part + 1
      : record.number === before.number + 1 && record.part === 1
  })
}
