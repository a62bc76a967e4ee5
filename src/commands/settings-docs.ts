// `gateway config --docs`: writes `docs/settings.md` from the schema of the settings.
import { join } from 'node:path'
import { settingsPage } from '../config/page.ts'

const PAGE = 'docs/settings.md'

/** Writes the page into the source tree; the exit code. */
export const settingsDocsCommand = async (out: { print(line: string): void }): Promise<number> => {
  await Bun.write(join(import.meta.dir, '../..', PAGE), settingsPage())
  out.print(`${PAGE} is written`)
  return 0
}
