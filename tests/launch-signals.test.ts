// Signals to `npm start`, to the launcher and to the group of a terminal: the launcher ends last, with the code of what
// it runs.
import { afterAll, describe, expect, test } from 'bun:test'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const ROOT = join(import.meta.dir, '..')
const scratch = mkdtempSync(join(tmpdir(), 'gatelog-signals-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

/** Ends half a second after the first signal, as a gateway that drains; the same signal comes again from above. */
const PROGRAM = `
  let stopping = false
  for (const signal of ['SIGTERM', 'SIGINT'])
    process.on(signal, () => {
      if (!stopping) setTimeout(() => process.exit(Number(process.env.CODE)), 500)
      stopping = true
    })
  console.log('up ' + process.pid)
  setInterval(() => {}, 1_000)`

const checkout = (program: string): string => {
  const folder = mkdtempSync(join(scratch, 'checkout-'))
  mkdirSync(join(folder, 'src/commands'), { recursive: true })
  for (const name of ['launch.mjs', 'bundle.mjs']) cpSync(join(ROOT, 'infra', name), join(folder, 'infra', name))
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  mkdirSync(join(folder, 'local'))
  writeFileSync(join(folder, 'local/package.json'), JSON.stringify({ name: 'local', version: '1.0.0' }))
  const own = { name: 'small', scripts, engines: { bun: '>=1.0.0' }, dependencies: { local: 'file:./local' } }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(own))
  Bun.spawnSync([process.execPath, 'install'], { cwd: folder, stdout: 'ignore', stderr: 'ignore' })
  writeFileSync(join(folder, 'src/commands/cli.ts'), program)
  return folder
}

const folder = checkout(PROGRAM)
const LAUNCHER = [Bun.which('node') ?? process.execPath, 'infra/launch.mjs', 'start']
const NPM = ['npm', '--silent', 'start']

const start = async (command: readonly string[], code: number) => {
  const child = Bun.spawn([...command], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true, // a group of its own, as a terminal has
    env: { PATH: `${join(process.execPath, '..')}:${process.env.PATH}`, HOME: scratch, CODE: String(code) },
  })
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader()
  let printed = ''
  while (!/up \d+\n/.test(printed)) {
    const { value, done } = await reader.read()
    if (done) throw new Error(`it ended before it was up: ${printed}`)
    printed += value
  }
  return { child, pid: Number(/up (\d+)/.exec(printed)![1]) }
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

describe.each([
  ['npm start', NPM],
  ['the launcher', LAUNCHER],
] as const)('%s', (_, command) => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    'after %s ends after what it runs, with its code',
    async (signal) => {
      for (const code of [0, 7]) {
        const { child, pid } = await start(command, code)
        child.kill(signal)
        expect(await child.exited).toBe(code)
        expect(isAlive(pid)).toBe(false)
      }
    },
    30_000,
  )

  test('after a signal to the whole group ends last too', async () => {
    const { child, pid } = await start(command, 3)
    process.kill(-child.pid, 'SIGTERM')
    expect(await child.exited).toBe(3)
    expect(isAlive(pid)).toBe(false)
  }, 30_000)

  test('ends with 128 and the number of the signal that ended what it runs', async () => {
    const { child, pid } = await start(command, 0)
    process.kill(pid, 'SIGKILL')
    expect(await child.exited).toBe(137)
  }, 30_000)
})
