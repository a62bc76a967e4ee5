// The table of `docs/performance.md`, which `bench -- targets --record` writes.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const DOCS = join(import.meta.dir, '../../../docs')
const PAGE = join(DOCS, 'performance.md')
const [BEGIN, END] = ['<!-- targets: begin -->', '<!-- targets: end -->']

/**
 * `page` with `text` between its two markers. Throws when a marker is missing or the end marker precedes the begin
 * marker.
 */
export const between = (page: string, text: string): string => {
  const [from, until] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (from < 0 || until < from) throw new Error(`${PAGE} has no place for the table`)
  return `${page.slice(0, from)}${BEGIN}\n${text.trim()}\n${page.slice(until)}`
}

/** The abbreviated hash of the last commit that changed what is measured. */
export const sourceCommit = (): string => {
  const { stdout } = Bun.spawnSync(['git', 'log', '-1', '--format=%h', '--', '../src'], { cwd: DOCS })
  return stdout.toString().trim()
}

/** Replaces the table of the page. `table`: its lines in Markdown. `machine`: the machine that it was measured on. */
export const recordTable = (table: readonly string[], machine: string): void => {
  const day = new Date().toISOString().slice(0, 10)
  const text = `Commit \`${sourceCommit()}\`, ${day}, ${machine}.\n\n${table.join('\n')}`
  writeFileSync(PAGE, between(readFileSync(PAGE, 'utf8'), text))
}
