// The entry of every npm script: finds or installs Bun, installs the dependencies, then hands over to Bun.
// Plain Node 20 (or Bun), no dependencies. `BUN_CONFIG_MAX_HTTP_REQUESTS` counts only when it is set before Bun starts;
// hence a launcher.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { availableParallelism, constants } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { commandsOf } from './bundle.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** The most that Bun accepts; its default of 256 upstream requests at once would cap the gateway. */
const MAX_HTTP_REQUESTS = '65336'

/**
 * Settings of the runtime's memory, where the environment does not set them; docs/decisions/0042 has the gain of each.
 * `MIMALLOC_PURGE_HOLES`: by default the free parts of pages in use go back to the kernel ten times a second, and
 * return as page faults, one or two a request.
 * `BUN_JSC_heapGrowthMaxIncrease`: the heap grows to 1.8 times its live objects before a full collection, instead of
 * three times.
 */
export const MEMORY = { MIMALLOC_PURGE_HOLES: '0', BUN_JSC_heapGrowthMaxIncrease: '0.8' }

/**
 * The same for a number of cores: on a single one, threads of the collector only compete with the threads that they are
 * meant to run beside (docs/decisions/0043).
 * @param {number} cores
 */
export const memoryOn = (cores) => (cores === 1 ? { ...MEMORY, BUN_JSC_useConcurrentGC: '0' } : MEMORY)

/** A failure that the user can fix: printed as one line. */
class LaunchError extends Error {}

/** @param {string} version e.g. `1.4.4` or `1.5.0-canary.2` */
export const isAtLeast = (version, wanted) => {
  const numbers = (text) => text.split(/[.+-]/, 3).map((part) => Number.parseInt(part, 10) || 0)
  const [left, right] = [numbers(version), numbers(wanted)]
  const different = left.findIndex((part, i) => part !== right[i])
  return different === -1 || left[different] > right[different]
}

/**
 * The npm packages with Bun's binary for a machine, best first.
 * @param {{ platform: string, arch: string, musl: boolean, avx2: boolean }} machine
 */
export const bunPackages = ({ platform, arch, musl, avx2 }) => {
  const cpu = { x64: 'x64', arm64: 'aarch64' }[arch]
  if ((platform !== 'linux' && platform !== 'darwin') || cpu === undefined) return []
  const name = `@oven/bun-${platform}-${cpu}${musl ? '-musl' : ''}`
  if (cpu === 'aarch64') return [name]
  return avx2 ? [name, `${name}-baseline`] : [`${name}-baseline`]
}

const thisMachine = () => {
  const linux = process.platform === 'linux'
  const header = linux ? process.report?.getReport?.().header : undefined
  return {
    platform: process.platform,
    arch: process.arch,
    musl:
      linux && (header === undefined ? existsSync('/etc/alpine-release') : header.glibcVersionRuntime === undefined),
    avx2: !linux || !existsSync('/proc/cpuinfo') || readFileSync('/proc/cpuinfo', 'utf8').includes('avx2'),
  }
}

/** @returns {string | null} null when the binary does not run */
const versionOf = (bun) => {
  const { status, stdout } = spawnSync(bun, ['--version'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  return status === 0 ? stdout.trim() : null
}

const localBun = (name) => join(root, '.bun', 'node_modules', name, 'bin', 'bun')

/** Path and version of an installed Bun, or null. */
const findBun = (wanted, packages) => {
  const own = process.versions.bun
  if (own !== undefined && isAtLeast(own, wanted)) return { bun: process.execPath, version: own }
  for (const bun of [...packages.map(localBun).filter(existsSync), 'bun']) {
    const version = versionOf(bun)
    if (version !== null && isAtLeast(version, wanted)) return { bun, version }
  }
  return null
}

/** Version and digests of the packages that this repository was tried with: a registry may serve no other bytes. */
const pinned = () => JSON.parse(readFileSync(join(root, 'infra', 'runtime.json'), 'utf8'))

/** A lock file of npm with one package and its digest, and the manifest that fits it. */
const lockOf = (name, version, integrity) => {
  const own = { name: 'gatelog-runtime', private: true, dependencies: { [name]: version } }
  const packages = { '': own, [`node_modules/${name}`]: { version, integrity } }
  return { own, lock: { name: own.name, lockfileVersion: 3, requires: true, packages } }
}

/**
 * Installs the package that ships the binary itself: npm compares it with the digest, no install script runs, nothing
 * is written outside the project.
 */
const installBun = (wanted, packages) => {
  const byHand = `install Bun ${wanted} or later (https://bun.sh) and run this again`
  if (packages.length === 0)
    throw new LaunchError(`there is no Bun package for ${process.platform} ${process.arch}: ${byHand}`)
  const { version: fixed, packages: digests } = pinned()
  if (fixed !== wanted)
    throw new LaunchError(`infra/runtime.json names Bun ${fixed}, package.json ${wanted}: ${byHand}`)
  const folder = join(root, '.bun')
  mkdirSync(folder, { recursive: true })
  for (const name of packages) {
    const integrity = digests[name]
    if (integrity === undefined) throw new LaunchError(`infra/runtime.json has no digest of ${name}: ${byHand}`)
    process.stderr.write(`gatelog: installing Bun ${wanted} from npm (${name})\n`)
    const { own, lock } = lockOf(name, wanted, integrity)
    writeFileSync(join(folder, 'package.json'), JSON.stringify(own))
    writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lock))
    const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel', 'error']
    const { status, error } = spawnSync('npm', ['ci', '--prefix', folder, ...flags], {
      cwd: folder,
      stdio: ['ignore', 2, 2],
    })
    if (error !== undefined) throw new LaunchError(`npm could not be started (${error.code}): ${byHand}`)
    const version = status === 0 ? versionOf(localBun(name)) : null
    if (version !== null) return { bun: localBun(name), version }
  }
  throw new LaunchError(`Bun ${wanted} could not be installed from npm (see above): check the network, or ${byHand}`)
}

/** A digest of the inputs of an installation: the lock file and the patches. */
const wantedDependencies = () => {
  const patches = join(root, 'patches')
  const files = existsSync(patches) ? readdirSync(patches).sort() : []
  const digest = createHash('sha256')
  for (const path of [join(root, 'bun.lock'), ...files.map((name) => join(patches, name))])
    digest.update(readFileSync(path))
  return digest.digest('hex')
}

/** Installs the dependencies when they are missing or differ from the lock file. */
const installDependencies = (bun) => {
  const stamp = join(root, 'node_modules', '.gatelog-installed')
  const wanted = wantedDependencies()
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return
  process.stderr.write('gatelog: installing dependencies\n')
  const flags = ['install', '--frozen-lockfile', '--no-progress']
  const { status, stdout, stderr } = spawnSync(bun, flags, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
  })
  if (status !== 0) {
    process.stderr.write(`${stdout}${stderr}`)
    throw new LaunchError('the dependencies could not be installed (see above): check the network and run this again')
  }
  writeFileSync(stamp, wanted)
}

/** Bun does not start with an unknown setting of its engine: a setting that another version dropped is left out. */
export const knownOf = (bun, settings) => {
  const env = { ...process.env, ...settings }
  const { status } = spawnSync(bun, ['-e', '0'], { env, stdio: 'ignore' })
  return status === 0 ? settings : {}
}

/** Scripts whose process serves. Tests and benches set the memory of the processes that they start. */
const SERVING = new Set(['start', 'dev'])

/**
 * The runs of each npm script: one or more argument lists for Bun. All of them run, and the worst exit code counts.
 * `commands()`: the path of the program that runs commands, as a bundle.
 */
const SCRIPTS = {
  start: (rest, commands) => [[commands(), 'start', ...rest]],
  dev: (rest) => [['--watch', 'src/commands/cli.ts', 'start', ...rest]],
  gateway: (rest) => [['src/commands/cli.ts', ...rest]],
  check: () => [
    ['node_modules/typescript/bin/tsc', '--noEmit', '-p', '.'],
    ['node_modules/@biomejs/biome/bin/biome', 'check', '.'],
  ],
  test: (rest) => [['tests/run.ts', ...rest]],
  bench: (rest) => [['tests/bench/run.ts', ...rest]],
  faults: (rest) => [['tests/faults/run.ts', ...rest]],
  simulate: (rest) =>
    rest[0] === 'replay'
      ? [['tests/simulation/replay/main.ts', ...rest.slice(1)]]
      : [['tests/simulation/main.ts', ...rest]],
  sbom: () => [['infra/sbom.ts']],
  security: (rest) => [['tests/security/report.ts', ...rest]],
}

/**
 * The scripts of package.json begin with `exec`: npm forwards a signal to its child alone, and a shell there would die
 * of it and let npm end before the gateway. Where npm, or a shell that stayed, was killed, what runs is ended too.
 */
const shell = process.env.npm_lifecycle_event === undefined ? null : process.ppid
const LOOK_MS = 500

/** Runs Bun in the foreground: stdin, signals and the exit code pass through. */
const run = (bun, args, given) =>
  new Promise((resolve) => {
    const env = { BUN_CONFIG_MAX_HTTP_REQUESTS: MAX_HTTP_REQUESTS, ...given, ...process.env }
    // Listens before the child exists: under load a signal may arrive between its start and the next line here.
    let child = null
    let early = null
    const forward = (signal) => {
      if (child === null) early = signal
      else child.kill(signal)
    }
    const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']
    for (const signal of signals) process.on(signal, forward)
    child = spawn(bun, args, { cwd: root, stdio: 'inherit', env })
    if (early !== null) child.kill(early)
    const orphaned = setInterval(() => {
      if (shell === null || process.ppid === shell) return
      clearInterval(orphaned)
      forward('SIGTERM')
    }, LOOK_MS)
    child.on('error', (error) => {
      process.stderr.write(`gatelog: Bun could not be started: ${error.message}\n`)
      clearInterval(orphaned)
      resolve(1)
    })
    child.on('exit', (code, signal) => {
      clearInterval(orphaned)
      for (const each of signals) process.off(each, forward)
      resolve(code ?? 128 + constants.signals[signal])
    })
  })

const main = async ([script, ...rest]) => {
  if (!Object.hasOwn(SCRIPTS, script ?? ''))
    throw new LaunchError(`unknown script "${script ?? ''}": use one of ${Object.keys(SCRIPTS).join(', ')}`)
  const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const wanted = engines.bun.replace(/^[^0-9]*/, '')
  const packages = bunPackages(thisMachine())
  const { bun, version } = findBun(wanted, packages) ?? installBun(wanted, packages)
  installDependencies(bun)
  const steps = SCRIPTS[script](rest, () => commandsOf(root, bun, version))
  const given = SERVING.has(script) ? knownOf(bun, memoryOn(availableParallelism())) : {}
  let worst = 0
  for (const args of steps) worst = Math.max(worst, await run(bun, args, given))
  return worst
}

const isMain = process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)
if (isMain) {
  main(process.argv.slice(2)).then(
    (code) => {
      process.exitCode = code
    },
    (error) => {
      process.stderr.write(`gatelog: ${error instanceof LaunchError ? error.message : error.stack}\n`)
      process.exitCode = 1
    },
  )
}
