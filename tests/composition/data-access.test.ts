// A data folder that is there and may not be used: every command says whose it is and what to do, in one line.
import { afterAll, expect, test } from 'bun:test'
import { chmodSync, constants, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type AccessPorts, accessProblem, roomProblem, withRoom } from '../../src/composition/data-access.ts'
import type { Config } from '../../src/config/schema.ts'
import { ConfigError } from '../../src/lib/settings/settings.ts'
import { runCommand } from '../services/command.ts'

const folder = mkdtempSync(join(tmpdir(), 'gatelog-access-'))
chmodSync(folder, 0o755)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Root may do everything: it has others try. */
const isRoot = process.getuid?.() === 0
const account = isRoot ? { uid: 65_534, gid: 65_534 } : undefined
const uid = account?.uid ?? process.getuid?.()
const owner = process.getuid?.()

const run = (command: string, dataDir: string) =>
  runCommand(command.split(' '), {
    cwd: folder,
    env: { GATEWAY_DATA_DIR: dataDir, GATEWAY_SERVER_PORT: '0', GATEWAY_WORKER_ENABLED: 'false' },
    account,
  })

test.each([0o555, 0o000])(
  'of mode %o',
  async (mode) => {
    const dataDir = join(folder, `mode-${mode}`)
    mkdirSync(dataDir)
    chmodSync(dataDir, mode)
    const shown = mode.toString(8)
    for (const command of ['start', 'verify', 'export', 'keys status', 'rebuild', 'worker']) {
      expect(await run(command, dataDir)).toMatchObject({
        code: 1,
        out: '',
        errors: `gatelog: data.dir: ${dataDir} cannot be written by this process (uid ${uid}): ${dataDir} belongs to uid ${owner}, mode ${shown}; run chown -R ${uid} ${dataDir}, start as uid ${owner}, or name another folder (GATEWAY_DATA_DIR)\n`,
      })
    }
  },
  120_000,
)

test('a file where the folder, or one above it, should be', async () => {
  writeFileSync(join(folder, 'file'), '')
  for (const dataDir of ['file', 'file/data'])
    for (const command of ['verify', 'keys status']) {
      const { code, errors } = await run(command, join(folder, dataDir))
      expect([code, errors]).toEqual([1, expect.stringMatching(/^gatelog: data\.dir: [^\n]+\n$/)])
    }
}, 60_000)

test('a master key that nobody may write is read', () => {
  const dataDir = join(folder, 'hardened')
  mkdirSync(dataDir)
  const key = join(dataDir, 'master.key')
  const files = { [dataDir]: 0o700, [key]: 0o100400 }
  const asked: [string, number][] = []
  const ports: AccessPorts = {
    ...owned(files, {}),
    access: (path, mode) => void asked.push([path, mode]),
  }
  expect(accessProblem(dataDir, 'write', ports)).toBeNull()
  expect(Object.fromEntries(asked)[key]! & constants.W_OK).toBe(0)
  expect(accessProblem(dataDir, 'write', owned(files, { [key]: 'EACCES' }))).toStartWith(
    `${key} cannot be read by this process (uid 1000)`,
  )
})

/** Somebody else's files: path -> mode; the paths in `refused` answer so to whoever asks for access. */
const owned = (files: Record<string, number>, refused: Record<string, string>): AccessPorts => ({
  uid: 1_000,
  stat(path) {
    if (refused[path] === 'closed') throw Object.assign(new Error('closed'), { code: 'EACCES' })
    const mode = files[path]
    return mode === undefined ? undefined : { uid: 0, mode, isDirectory: () => !path.endsWith('.db') }
  },
  access(path) {
    if (refused[path] !== undefined) throw Object.assign(new Error('refused'), { code: refused[path] })
  },
})

test('one of its files, a folder above it, a read-only file system', () => {
  const files = { '/': 0o755, '/up': 0o700, '/up/data': 0o755, '/up/data/lock.db': 0o100600 }
  expect(accessProblem('/up/data', 'write', owned(files, {}))).toBeNull()
  expect(accessProblem('/up/none', 'write', owned(files, {}))).toBeNull()
  expect(accessProblem('/up/data', 'write', owned(files, { '/up/data/lock.db': 'EACCES' }))).toBe(
    '/up/data/lock.db cannot be written by this process (uid 1000): /up/data/lock.db belongs to uid 0, mode 600; run chown -R 1000 /up/data/lock.db, start as uid 0, or name another folder (GATEWAY_DATA_DIR)',
  )
  expect(accessProblem('/up/data', 'read', owned(files, { '/up/data': 'closed' }))).toBe(
    '/up/data cannot be read by this process (uid 1000): /up belongs to uid 0, mode 700; let it pass /up, or name another folder (GATEWAY_DATA_DIR)',
  )
  expect(accessProblem('/up/data', 'write', owned(files, { '/up/data': 'EROFS' }))).toBe(
    '/up/data is on a file system that is read-only: name another folder (GATEWAY_DATA_DIR)',
  )
})

test('a start that lacks room says how much it needs', () => {
  const dir = mkdtempSync(join(tmpdir(), 'gatelog-room-'))
  const config = { data: { dir }, server: { processes: 2 }, database: { url: null } } as Config
  const mib = (count: number) => count * 1_048_576
  expect(roomProblem(config, mib(112))).toBeNull()
  expect(roomProblem(config, mib(111))).toMatch(/has 111 MiB free, a start needs 112 MiB: make room/)
  mkdirSync(join(dir, 'postgres')) // made before
  expect(roomProblem(config, mib(48))).toBeNull()
  const full = Object.assign(new Error('no space left'), { code: 'ENOSPC' })
  expect(withRoom(config, full)).toBeInstanceOf(ConfigError)
  expect(withRoom(config, new Error('something else'))).not.toBeInstanceOf(ConfigError)
  rmSync(dir, { recursive: true })
})
