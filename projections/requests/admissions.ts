// Admissions that wait in `pending` for their settlement.
import { copyInto, copyLine } from '../copy.ts'
import type { Transaction } from '../database.ts'
import type { Build } from '../projection.ts'
import type { AdmittedRow } from './fold.ts'
import { keysOf, type RequestKey } from './stored.ts'

/** Removes and returns those of earlier batches, by id. */
export const takeAdmissions = async (
  sql: Transaction,
  { schemaName }: Build,
  settled: readonly RequestKey[],
): Promise<ReadonlyMap<string, string>> => {
  if (settled.length === 0) return new Map()
  const taken = await sql<{ id: string; admitted: string }[]>`
    delete from ${sql(`${schemaName}.pending`)} held using ${keysOf(sql, settled)}
    where held.at_ms = key.at_ms and held.id = key.id returning held.id, held.admitted`
  return new Map(taken.map(({ id, admitted }) => [id, admitted]))
}

/** Admissions whose settlement was not in this batch: it comes later, or came before from another partition. */
export const keepAdmissions = async (
  sql: Transaction,
  { schemaName }: Build,
  rows: readonly AdmittedRow[],
): Promise<void> => {
  if (rows.length === 0) return
  const request = sql(`${schemaName}.request`)
  const settled = await sql<{ id: string }[]>`select id from ${keysOf(sql, rows)} join ${request} using (at_ms, id)`
  const known = new Set(settled.map(({ id }) => id))
  const late = rows.filter(({ id }) => known.has(id))
  for (const { id, atMs, admitted } of late) {
    await sql`
      update ${sql(`${schemaName}.detail`)} set admitted = ${admitted}
      where at_ms = ${atMs} and id = ${id} and admitted is null`
  }
  const open = rows.filter(({ id }) => !known.has(id))
  const lines = open.map(({ atMs, id, admitted, place }) =>
    copyLine([atMs, id, admitted, place.partition, place.offset]),
  )
  const columns = ['at_ms', 'id', 'admitted', 'log_partition', 'log_offset']
  await copyInto(sql, `"${schemaName}".pending`, columns, lines)
}
