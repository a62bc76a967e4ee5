// The launcher (infra/launch.mjs): which Bun it runs, what it installs, and how it starts the command line.
import { afterAll, describe, expect, test } from 'bun:test'
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bunPackages, isAtLeast, knownOf, MEMORY, memoryOn } from '../infra/launch.mjs'

const ROOT = join(import.meta.dir, '..')
const PINNED: { version: string; packages: Record<string, string> } = JSON.parse(
  readFileSync(join(ROOT, 'infra/runtime.json'), 'utf8'),
)
const scratch = mkdtempSync(join(tmpdir(), 'gatelog-launch-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

describe('which Bun', () => {
  test.each([
    ['1.4.4', '1.4.4', true],
    ['1.4.10', '1.4.4', true],
    ['1.5.0-canary.3', '1.4.4', true],
    ['2.0.0', '1.4.4', true],
    ['1.4.3', '1.4.4', false],
    ['1.3.99', '1.4.4', false],
    ['0.9', '1.4.4', false],
  ])('%s for %s: %p', (version, wanted, fits) => expect(isAtLeast(version, wanted)).toBe(fits))

  test('each machine has its package', () => {
    const linux = { platform: 'linux', arch: 'x64', musl: false, avx2: true }
    expect(bunPackages(linux)).toEqual(['@oven/bun-linux-x64', '@oven/bun-linux-x64-baseline'])
    expect(bunPackages({ ...linux, avx2: false })).toEqual(['@oven/bun-linux-x64-baseline'])
    expect(bunPackages({ ...linux, musl: true, arch: 'arm64' })).toEqual(['@oven/bun-linux-aarch64-musl'])
    expect(bunPackages({ ...linux, platform: 'darwin', arch: 'arm64' })).toEqual(['@oven/bun-darwin-aarch64'])
    expect(bunPackages({ ...linux, platform: 'sunos' })).toEqual([])
  })
})

/**
 * A checkout with only the launcher, the bundler, one local dependency, and a program in the place of the command line.
 */
const checkout = (program: string): string => {
  const folder = mkdtempSync(join(scratch, 'checkout-'))
  mkdirSync(join(folder, 'src/commands'), { recursive: true })
  for (const name of ['launch.mjs', 'bundle.mjs', 'runtime.json'])
    cpSync(join(ROOT, 'infra', name), join(folder, 'infra', name))
  const local = { name: 'local', version: '1.0.0' }
  const own = { name: 'small', engines: { bun: `>=${PINNED.version}` }, dependencies: { local: 'file:./local' } }
  mkdirSync(join(folder, 'local'))
  writeFileSync(join(folder, 'local/package.json'), JSON.stringify(local))
  writeFileSync(join(folder, 'package.json'), JSON.stringify(own))
  Bun.spawnSync([process.execPath, 'install'], { cwd: folder, stdout: 'ignore', stderr: 'ignore' })
  rmSync(join(folder, 'node_modules'), { recursive: true })
  writeFileSync(join(folder, 'src/commands/cli.ts'), program)
  return folder
}

const launch = (folder: string, args: string[], env: Record<string, string> = {}) =>
  Bun.spawn([Bun.which('node') ?? process.execPath, join(folder, 'infra/launch.mjs'), ...args], {
    cwd: scratch,
    stdin: new Blob(['from stdin']),
    stdout: 'pipe',
    stderr: 'pipe',
    env: { PATH: `${join(process.execPath, '..')}:${process.env.PATH}`, HOME: scratch, ...env },
  })

describe('the launcher', () => {
  test('passes arguments, stdin and the exit code, and raises the limit of requests before Bun starts', async () => {
    const folder = checkout(`
      console.log(JSON.stringify({ args: process.argv.slice(2), stdin: await Bun.stdin.text(),
        limit: process.env.BUN_CONFIG_MAX_HTTP_REQUESTS, cwd: process.cwd() }))
      process.exit(7)`)
    const child = launch(folder, ['gateway', 'rebuild', '--x'])
    const out = JSON.parse(await new Response(child.stdout).text())
    expect(out).toEqual({ args: ['rebuild', '--x'], stdin: 'from stdin', limit: '65336', cwd: folder })
    expect(await child.exited).toBe(7)
  })

  test('says how a process that serves keeps memory, unless the environment does; others are as they were', async () => {
    const folder = checkout(`
      const { MIMALLOC_PURGE_HOLES: holes, BUN_JSC_heapGrowthMaxIncrease: growth } = process.env
      console.log(JSON.stringify({ holes, growth }))`)
    const said = async (script: string, env = {}) =>
      JSON.parse(await new Response(launch(folder, [script], env).stdout).text())
    const { MIMALLOC_PURGE_HOLES: holes, BUN_JSC_heapGrowthMaxIncrease: growth } = MEMORY
    expect(await said('start')).toEqual({ holes, growth })
    expect(await said('start', { MIMALLOC_PURGE_HOLES: '1' })).toEqual({ holes: '1', growth })
    expect(await said('gateway')).toEqual({})
    const image = readFileSync(join(ROOT, 'infra/Dockerfile'), 'utf8')
    for (const [name, value] of Object.entries(MEMORY)) expect(image).toContain(`${name}=${value} `)
  })

  test('a Bun that does not know a setting of its engine is started without', () => {
    expect(knownOf(process.execPath, memoryOn(1))).toEqual({ ...MEMORY, BUN_JSC_useConcurrentGC: '0' })
    expect(memoryOn(2)).toEqual(MEMORY)
    expect(knownOf(process.execPath, { ...MEMORY, BUN_JSC_noSuchSetting: '1' })).toEqual({})
  })

  test('installs dependencies once for each lock file', async () => {
    const folder = checkout('process.exit(0)')
    const first = launch(folder, ['start'])
    expect(await first.exited).toBe(0)
    expect(await new Response(first.stderr).text()).toContain('installing dependencies')
    const second = launch(folder, ['start'])
    expect(await second.exited).toBe(0)
    expect(await new Response(second.stderr).text()).toBe('')
    writeFileSync(join(folder, 'bun.lock'), `${readFileSync(join(folder, 'bun.lock'), 'utf8')}\n`)
    const third = launch(folder, ['start'])
    expect(await third.exited).toBe(0)
    expect(await new Response(third.stderr).text()).toContain('installing dependencies')
  })

  test('forwards SIGTERM and reports how Bun ended', async () => {
    const folder = checkout(`
      process.on('SIGTERM', () => { console.log('stopped well'); process.exit(0) })
      console.log('up')
      setInterval(() => {}, 1_000)`)
    const child = launch(folder, ['start'])
    let printed = ''
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      if (!printed.includes('up') && (printed + text).includes('up')) child.kill('SIGTERM')
      printed += text
    }
    expect(printed).toContain('stopped well')
    expect(await child.exited).toBe(0)
  })

  test('under npm ends what it runs when the shell of npm is gone', async () => {
    const folder = checkout(`
      process.on('SIGTERM', () => { console.log('stopped well'); process.exit(0) })
      console.log('up')
      setInterval(() => {}, 1_000)`)
    const node = Bun.which('node') ?? process.execPath
    const shell = Bun.spawn(['sh', '-c', `'${node}' '${join(folder, 'infra/launch.mjs')}' start; true`], {
      ...{ cwd: scratch, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
      env: { PATH: `${join(process.execPath, '..')}:${process.env.PATH}`, HOME: scratch, npm_lifecycle_event: 'start' },
    })
    let printed = ''
    for await (const text of shell.stdout.pipeThrough(new TextDecoderStream())) {
      if (!printed.includes('up') && (printed + text).includes('up')) shell.kill('SIGKILL')
      printed += text
    }
    expect(printed).toContain('stopped well')
  })

  test('an unknown script is one line', async () => {
    const child = launch(checkout(''), ['strat'])
    expect(await new Response(child.stderr).text()).toBe(
      'gatelog: unknown script "strat": use one of start, dev, gateway, check, ' +
        'test, bench, faults, simulate, sbom, security\n',
    )
    expect(await child.exited).toBe(1)
  })

  test('without Bun it takes the package that ships the binary, by npm, and runs no install script', async () => {
    const folder = checkout('console.log("from the local Bun")')
    const tools = join(folder, 'tools')
    mkdirSync(tools)
    // A fake npm that records its arguments and puts the running Bun where the package would put its own.
    writeFileSync(
      join(tools, 'npm'),
      `#!/bin/sh
printf '%s\\n' "$@" > '${join(folder, 'asked')}'
name=$(grep -o '@oven/bun-[a-z0-9-]*' "$3/package.json" | head -1)
target="$3/node_modules/$name/bin"
mkdir -p "$target" && ln -s '${process.execPath}' "$target/bun"\n`,
    )
    chmodSync(join(tools, 'npm'), 0o755)
    const child = launch(folder, ['start'], { PATH: `${tools}:/usr/bin:/bin` })
    const out = await new Response(child.stdout).text()
    expect(await child.exited).toBe(0)
    expect(out).toBe('from the local Bun\n')
    const asked = readFileSync(join(folder, 'asked'), 'utf8')
    expect(asked).toStartWith('ci\n--prefix\n')
    expect(asked).toContain('--ignore-scripts')
    const { packages } = JSON.parse(readFileSync(join(folder, '.bun/package-lock.json'), 'utf8'))
    const [, [path, one]] = Object.entries(packages) as [unknown, [string, object]]
    const name = path.slice('node_modules/'.length)
    expect(one).toEqual({ version: PINNED.version, integrity: PINNED.packages[name]! })
    expect(existsSync(join(folder, '.bun'))).toBe(true)
  })

  test('S36: a runtime other than the one with the pinned digest is not installed, and never run', async () => {
    const folder = checkout('console.log("must not run")')
    const evil = join(folder, 'package')
    mkdirSync(join(evil, 'bin'), { recursive: true })
    const ran = join(folder, 'ran')
    writeFileSync(join(evil, 'bin/bun'), `#!/bin/sh\ntouch '${ran}'\necho ${PINNED.version}\n`)
    chmodSync(join(evil, 'bin/bun'), 0o755)
    const registry = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: (request) => {
        const { origin, pathname } = new URL(request.url)
        const tarball = join(folder, 'evil.tgz')
        if (pathname.endsWith('.tgz')) return new Response(Bun.file(tarball))
        const name = decodeURIComponent(pathname.slice(1))
        writeFileSync(join(evil, 'package.json'), JSON.stringify({ name, version: PINNED.version }))
        Bun.spawnSync(['tar', 'czf', tarball, '-C', folder, 'package'])
        const dist = { tarball: `${origin}/evil.tgz` }
        const version = { name, version: PINNED.version, dist }
        return Response.json({ name, 'dist-tags': {}, versions: { [PINNED.version]: version } })
      },
    })
    const npm = join(Bun.which('npm')!, '..')
    const child = launch(folder, ['start'], {
      PATH: `${npm}:/usr/bin:/bin`,
      npm_config_registry: registry.url.href,
      npm_config_cache: join(folder, 'cache'),
      npm_config_fetch_retries: '0',
    })
    const [out, error] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
    await registry.stop(true)
    expect([await child.exited, out, existsSync(ran)]).toEqual([1, '', false])
    expect(error).toContain('EINTEGRITY')
    expect(error).toContain('could not be installed from npm')
  }, 60_000)
})

test('S36: every package of the runtime that a machine may need has a pinned digest, of the wanted version', () => {
  const { engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  expect(engines.bun).toBe(`>=${PINNED.version}`)
  const names = ['linux', 'darwin'].flatMap((platform) =>
    ['x64', 'arm64'].flatMap((arch) =>
      [true, false].flatMap((musl) =>
        [true, false].flatMap((avx2) => bunPackages({ platform, arch, musl: musl && platform === 'linux', avx2 })),
      ),
    ),
  )
  expect(Object.keys(PINNED.packages).sort()).toEqual([...new Set(names)].sort())
  for (const digest of Object.values(PINNED.packages)) expect(digest).toMatch(/^sha512-[A-Za-z0-9+/]{86}==$/)
})
