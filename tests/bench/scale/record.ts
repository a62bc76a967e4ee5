// Where the rows of the scale bench are kept: `docs/performance.json`, and the plot that is made of it.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sourceCommit } from '../report/performance-page.ts'
import type { Row } from './measure.ts'
import { plotOf } from './plot.ts'

const DOCS = join(import.meta.dir, '../../../docs')
const FILE = join(DOCS, 'performance.json')

/** A row with the commit that it was measured on. */
export type KeptRow = Row & { readonly commit: string }

const HEAD =
  '| by | size | CPU us/request | to the smallest | bare proxy | p50 added us | p99 added us | RSS ' +
  'MB | N | failed | |\n|---|---|---|---|---|---|---|---|---|---|---|\n'

/** Rows as Markdown, with or without the head of the table. */
export const tableOf = (rows: readonly Row[], hasHead: boolean): string =>
  (hasHead ? HEAD : '') +
  rows
    .map(
      (row) =>
        `| ${row.by} | ${row.at.toLocaleString('en')} | ${row.cpuUs.toFixed(1)} | ` +
        `${row.toSmallest?.toFixed(2) ?? ''} | ${row.bareCpuUs.toFixed(1)} | ${Math.round(row.p50AddedUs)} | ` +
        `${Math.round(row.p99AddedUs)} | ${row.rssMb} | ${row.requests.toLocaleString('en')} | ${row.failed} | ` +
        `${row.more ?? ''} |`,
    )
    .join('\n')

/** Puts rows in the place of those of the same size, and makes the plot anew. */
export const recordRows = (rows: readonly Row[]): void => {
  const failed = rows.find((row) => row.failed > 0)
  if (failed !== undefined)
    throw new Error(`${failed.failed} requests of ${failed.by} ${failed.at} failed: not recorded`)
  const read = existsSync(FILE) ? (JSON.parse(readFileSync(FILE, 'utf8')) as Partial<KeptRow>[]) : []
  const kept = read.map((row) => ({ toSmallest: null, ...row }) as KeptRow) // rows of before there was that column
  const measured = rows.map((row) => ({ ...row, commit: sourceCommit() }))
  const others = kept.filter((old) => !measured.some(({ by, at }) => by === old.by && at === old.at))
  const order = [...new Set([...kept, ...measured].map(({ by }) => by))].sort()
  const all = [...others, ...measured].sort((a, b) => order.indexOf(a.by) - order.indexOf(b.by) || a.at - b.at)
  writeFileSync(FILE, `${JSON.stringify(all, null, 1)}\n`)
  writeFileSync(join(DOCS, 'performance.svg'), plotOf(all))
}
