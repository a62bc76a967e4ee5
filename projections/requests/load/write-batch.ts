// A folded batch -> Postgres, in the transaction that moves the positions of its partitions.
import { copyInto, copyPieces } from '../../copy.ts'
import type { Transaction } from '../../database.ts'
import type { Build } from '../../projection.ts'
import { noteLate } from '../../usage/closed.ts'
import { addUsageText } from '../../usage/project.ts'
import { keepAdmissions, takeAdmissions } from '../admissions.ts'
import { REQUEST_COLUMNS } from '../fold.ts'
import { holdBuild } from '../hold.ts'
import { DETAIL_COLUMNS, detailLine, type FoldedBatch } from './fold-batch.ts'

/** A batch contains something that has to be applied record by record. */
export class OddBatch extends Error {
  override readonly name = 'OddBatch'
}

/** Throws OddBatch, and any error of Postgres, such as a request that is there already. */
export const writeBatch = async (
  sql: Transaction,
  build: Build,
  batch: FoldedBatch,
  keepDays: number,
): Promise<void> => {
  const { request, detail, early, open, lateMs, usage, oldestMs } = batch
  const keptMs = await holdBuild(sql, build, keepDays)
  if (oldestMs < keptMs) throw new OddBatch('a request is too old to be kept')
  if (request.length > 0) await copyPieces(sql, `"${build.schemaName}".request`, REQUEST_COLUMNS, request)
  if (detail.length > 0) await copyPieces(sql, `"${build.schemaName}".detail`, DETAIL_COLUMNS, detail)
  const admissions = await takeAdmissions(sql, build, early)
  const lines = early.map((row) => detailLine(row, admissions.get(row.id) ?? null))
  await copyInto(sql, `"${build.schemaName}".detail`, DETAIL_COLUMNS, lines)
  await noteLate(sql, build.schemaName, lateMs)
  await keepAdmissions(sql, build, open)
  await addUsageText(sql, build.schemaName, usage)
}
