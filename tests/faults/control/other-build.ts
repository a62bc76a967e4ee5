// Another build of the gateway in a separate folder: this source tree with one event type more, or that of an earlier
// commit.
import { cpSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EVENT_VERSION } from '../../../src/domain/control.ts'

const ROOT = join(import.meta.dir, '../../..')
const PARTS = ['src', 'projections', 'package.json', 'tsconfig.json']
/** What a tenant is renamed to, to have the newer build write its new event type. */
export const NEW_TYPE_NAME = 'written with the new type'
export const NEW_TYPE = 'tenant.planned'

const EDITS: readonly (readonly [string, string])[] = [
  [
    "    'tenant.deleted': eventType({",
    `    '${NEW_TYPE}': eventType({
      schema: t.Object({ id: Id, plan: Plan }),
      since: ${EVENT_VERSION + 1},
      action: 'update',
      resource: 'tenant',
      subject: (data) => data.id,
    }),
    'tenant.deleted': eventType({`,
  ],
  [
    "    if (type === 'tenant.replaced') {",
    `    if (type === '${NEW_TYPE}') return rows.changed(before.id, before, { plan: data.plan as string | null }, meta)
    if (type === 'tenant.replaced') {`,
  ],
  [
    "  if (command.do === 'replace') {",
    `  if (command.do === 'replace' && command.name === '${NEW_TYPE_NAME}')
    return [{ type: '${NEW_TYPE}', data: { id: row.id, plan: 'planned' } }]
  if (command.do === 'replace') {`,
  ],
]

/** The folder of a build whose newest event version is one higher. The caller removes it. */
export const newerBuild = (): string => {
  const root = mkdtempSync(join(tmpdir(), 'gatelog-newer-build-'))
  for (const part of PARTS) cpSync(join(ROOT, part), join(root, part), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'))
  const path = join(root, 'src/domain/access/tenant.ts')
  let text = readFileSync(path, 'utf8')
  for (const [from, to] of EDITS) {
    if (text.split(from).length !== 2) throw new Error(`src/domain/access/tenant.ts does not hold this once: ${from}`)
    text = text.replace(from, () => to)
  }
  writeFileSync(path, text)
  return root
}

/** The folder of the build that an earlier commit makes, with the packages of this one. The caller removes it. */
export const earlierBuild = (commit: string): string => {
  const root = mkdtempSync(join(tmpdir(), 'gatelog-earlier-build-'))
  const archive = Bun.spawnSync(['git', '-C', ROOT, 'archive', commit, ...PARTS])
  if (!archive.success) throw new Error(`${commit} is not in the history that is here: ${archive.stderr.toString()}`)
  const unpacked = Bun.spawnSync(['tar', '-x', '-C', root], { stdin: archive.stdout })
  if (!unpacked.success) throw new Error(`its files cannot be unpacked: ${unpacked.stderr.toString()}`)
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'))
  return root
}
