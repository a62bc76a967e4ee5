// Where the rows of the scale bench are kept: `docs/performance.json`, and what is made of it, the tables in `docs/performance.md` and the plot beside it.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Row } from './measure.ts'
import { plotOf } from './plot.ts'

const DOCS = join(import.meta.dir, '../../../docs')
const FILE = join(DOCS, 'performance.json')
const PAGE = join(DOCS, 'performance.md')
const [BEGIN, END] = ['<!-- rows: begin -->', '<!-- rows: end -->']

/** A row with the commit that it was measured on. */
export type KeptRow = Row & { readonly commit: string }

const HEAD =
  '| by | size | CPU us/request | to the smallest | bare proxy | p50 added us | p99 added us | RSS MB | N | failed | |\n|---|---|---|---|---|---|---|---|---|---|---|\n'

/** Rows as Markdown, with or without the head of the table. */
export const tableOf = (rows: readonly Row[], hasHead: boolean): string =>
  (hasHead ? HEAD : '') +
  rows
    .map(
      (row) =>
        `| ${row.by} | ${row.at.toLocaleString('en')} | ${row.cpuUs.toFixed(1)} | ${row.toSmallest?.toFixed(2) ?? ''} | ${row.bareCpuUs.toFixed(1)} | ${Math.round(row.p50AddedUs)} | ${Math.round(row.p99AddedUs)} | ${row.rssMb} | ${row.requests.toLocaleString('en')} | ${row.failed} | ${row.more ?? ''} |`,
    )
    .join('\n')

/** The last commit that changed what is measured. */
const commit = (): string => {
  const { stdout } = Bun.spawnSync(['git', 'log', '-1', '--format=%h', '--', '../src'], { cwd: DOCS })
  return stdout.toString().trim()
}

/** Puts rows in the place of those of the same size, and makes page and plot anew. */
export const recordRows = (rows: readonly Row[]): void => {
  const failed = rows.find((row) => row.failed > 0)
  if (failed !== undefined)
    throw new Error(`${failed.failed} requests of ${failed.by} ${failed.at} failed: not recorded`)
  const read = existsSync(FILE) ? (JSON.parse(readFileSync(FILE, 'utf8')) as Partial<KeptRow>[]) : []
  const kept = read.map((row) => ({ toSmallest: null, ...row }) as KeptRow) // rows of before there was that column
  const measured = rows.map((row) => ({ ...row, commit: commit() }))
  const others = kept.filter((old) => !measured.some(({ by, at }) => by === old.by && at === old.at))
  const order = [...new Set([...kept, ...measured].map(({ by }) => by))].sort()
  const all = [...others, ...measured].sort((a, b) => order.indexOf(a.by) - order.indexOf(b.by) || a.at - b.at)
  writeFileSync(FILE, `${JSON.stringify(all, null, 1)}\n`)
  writeFileSync(join(DOCS, 'performance.svg'), plotOf(all))
  const page = readFileSync(PAGE, 'utf8')
  const [from, until] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (from < 0 || until < from) throw new Error(`${PAGE} has no place for the rows`)
  const commits = [...new Set(all.map((row) => row.commit))].map((hash) => `\`${hash}\``).join(', ')
  const text = `${BEGIN}\nMeasured at ${commits}.\n\n${tableOf(all, true)}\n`
  writeFileSync(PAGE, page.slice(0, from) + text + page.slice(until))
}
