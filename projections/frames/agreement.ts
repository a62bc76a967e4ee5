// Compares frames with the topic that they are made from: how many, and a digest of them all.
import { createHash } from 'node:crypto'
import { TOPICS } from '../../src/log/topics.ts'
import { appliedRecords, Problems, positionsOf, type Snapshot } from '../agreement.ts'
import type { Build } from '../projection.ts'
import { type FrameRecordRow, foldFrameRecord } from './project.ts'

const TOPIC = TOPICS.operations.name
const DAY_MS = 86_400_000
/** More than a frame has. */
const PARTS = 1_000_000

export interface FramesAgreement {
  readonly records: number
  readonly topic: { readonly frames: number; readonly digest: string }
  readonly stored: { readonly frames: number; readonly digest: string }
  readonly problems: readonly string[]
}

/** Digest of one part of a frame; the database computes the same one. */
const digestOf = ({ instance, epoch, number, part, candidates }: FrameRecordRow): bigint => {
  const line = [instance, epoch, number, part, candidates].join(' ')
  return BigInt(`0x${createHash('md5').update(line).digest('hex').slice(0, 16)}`)
}

const written = (digest: bigint): string => digest.toString(16).padStart(16, '0')

/**
 * Reads the topic as far as the read model has; frames that are older than what it keeps, or than what the topic keeps,
 * are left out.
 */
export const compareFrames = async (
  snapshot: Snapshot,
  build: Build,
  requestDays: number,
): Promise<FramesAgreement> => {
  const { sql } = snapshot
  const problems = new Problems('frames')
  const [newest] = await sql<{ day: number }[]>`select day from ${sql(`${build.schemaName}.newest_day`)}`
  const keptMs = ((newest?.day ?? 0) - requestDays) * DAY_MS
  /**
   * The newest of each process start: its frames come in order, and one that was written twice has the same content.
   */
  const newestOf = new Map<string, number>()
  const first = new Map<number, number>()
  let [records, frames, digest] = [0, 0, 0n]
  const take = (row: FrameRecordRow) => {
    const name = `${row.instance} ${row.epoch}`
    const place = row.number * PARTS + row.part
    if (row.at_ms < keptMs || place <= (newestOf.get(name) ?? -1)) return
    newestOf.set(name, place)
    frames++
    digest ^= digestOf(row)
  }
  for (const reached of await positionsOf(sql, build)) {
    let logAtMs = 0
    for await (const batch of appliedRecords(snapshot, TOPIC, reached, problems)) {
      if (!first.has(reached.partition)) first.set(reached.partition, batch[0]!.offset)
      records += batch.length
      for (const record of batch) {
        logAtMs = Math.max(logAtMs, record.atMs)
        for (const row of foldFrameRecord(record, logAtMs, reached.partition).rows) take(row)
      }
    }
  }
  const scanned = JSON.stringify([...first].map(([partition, offset]) => ({ partition, first_offset: offset })))
  const [stored] = await sql<{ frames: number; digest: string }[]>`
    select count(*) as frames,
      lpad(to_hex(coalesce(bit_xor(('x' || left(md5(concat_ws(' ', instance, epoch, number, part, candidates)), 16)
        )::bit(64)::bigint), 0)), 16, '0') as digest
    from ${sql(`${build.schemaName}.frame`)} held
    join json_to_recordset(${scanned}::text::json) as scanned (partition integer, first_offset bigint)
      on scanned.partition = held.log_partition and held.log_offset >= scanned.first_offset`
  const topic = { frames, digest: written(digest) }
  if (stored!.frames !== topic.frames || stored!.digest !== topic.digest)
    problems.report(
      `the frames differ from ${TOPIC}: ${stored!.frames} (digest ${stored!.digest}) ` +
        `instead of ${topic.frames} (digest ${topic.digest})`,
    )
  return { records, topic, stored: stored!, problems: problems.list() }
}
