import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }
import { masterKeysFor } from '../../src/composition/settings.ts'
import { settingsTable } from '../../src/config/page.ts'
import { loadConfig } from '../../src/config/schema.ts'
import { embeddedLog } from '../../src/log/embedded/log.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { runCommand } from '../services/command.ts'
import { EACH_LISTENER } from '../services/serve-app.ts'

const folder = mkdtempSync(join(tmpdir(), 'gatelog-cli-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Runs the command line to its end, in an empty folder. */
const cli = (args: readonly string[], env: Record<string, string> = {}) => runCommand(args, { cwd: folder, env })

/** What every refusal is: exit code 1, one line on stderr, nothing on stdout, no stack. */
const refusal = async (args: readonly string[], env: Record<string, string> = {}): Promise<string> => {
  const { out, errors, code } = await cli(args, env)
  expect({ out, code }).toEqual({ out: '', code: 1 })
  expect(errors).toMatch(/^gatelog: [^\n]+\n$/)
  expect(errors).not.toContain('    at ')
  return errors.slice('gatelog: '.length, -1)
}

describe('the command line', () => {
  test('helps, and says its version', async () => {
    const { out, code } = await cli(['--help'])
    expect(code).toBe(0)
    for (const command of ['start', 'worker', 'rebuild', 'topics', 'config']) expect(out).toContain(`  ${command} `)
    expect((await cli(['--version'])).out).toBe(`${manifest.version}\n`)
    expect((await cli(['rebuild', '--help'])).out).toStartWith('rebuild [read-model...]')
  })

  test('an unknown command, flag or word is one line', async () => {
    expect(await refusal(['strat'])).toStartWith('unknown command "strat"; did you mean "start"?')
    expect(await refusal(['zzz'])).toStartWith('unknown command "zzz". Commands: start, worker')
    expect(await refusal(['start', '--prot', '1'])).toStartWith('"--prot" is nothing that start takes')
    expect(await refusal(['topics', 'all'])).toStartWith('"all" is nothing that topics takes')
  })

  test('config --print shows values, where they come from, and no secret', async () => {
    const file = join(folder, 'settings.yaml')
    writeFileSync(file, 'server:\n  port: 9123\n')
    const env = { GATEWAY_CONFIG: file, GATEWAY_DATABASE_URL: 'postgres://u:pa55word@db/g', GATEWAY_SERVER_PROT: '1' }
    const { out, errors, code } = await cli(['config', '--print'], env)
    expect(code).toBe(0)
    expect(out).toMatch(/^server\.port = 9123 +# settings\.yaml$/m)
    expect(out).toMatch(/^database\.url = "postgres:\/\/\[redacted\]@db\/g" +# GATEWAY_DATABASE_URL$/m)
    expect(out).not.toContain('pa55word')
    expect(errors).toContain('GATEWAY_SERVER_PROT is not a setting')
    expect((await cli(['config', '--print'], { GATEWAY_CONFIG: '' })).code).toBe(0)
    expect((await cli(['config', '--table'])).out).toBe(`${settingsTable()}\n`)
  })
})

describe('what stops a start', () => {
  test('a wrong setting, a missing file, a wrong bootstrap', async () => {
    expect(await refusal(['start'], { GATEWAY_SERVER_PORT: 'many' })).toStartWith('GATEWAY_SERVER_PORT must be a whole')
    expect(await refusal(['start'], { GATEWAY_CONFIG: 'absent.yaml' })).toContain('there is no file')
    const file = join(folder, 'bootstrap.yaml')
    writeFileSync(file, 'bootstrap:\n  providers:\n    - name: x\n      kind: openai\n      flavour: vanilla\n')
    expect(await refusal(['start'], { GATEWAY_CONFIG: file })).toMatch(/bootstrap\.providers.*flavour/)
    writeFileSync(file, 'bootstrap:\n  providers:\n    - name: x\n      kind: openay\n')
    for (const command of ['start', 'worker', 'rebuild', 'topics']) {
      const message = await refusal([command], { GATEWAY_CONFIG: file })
      expect(message).toContain('bootstrap.providers[0].kind: unknown kind "openay"')
    }
    expect(await refusal(['start'], { GATEWAY_CONFIG: folder })).toContain('is a folder: name the file in it')
  })

  test('an address that is not ours, a key that no client could send', async () => {
    for (const GATEWAY_SERVER_LISTENER of EACH_LISTENER)
      for (const host of ['203.0.113.1', 'a..b']) {
        const env = { GATEWAY_SERVER_LISTENER, GATEWAY_SERVER_HOST: host, GATEWAY_SERVER_PORT: '0' }
        expect(await refusal(['start'], env)).toBe(
          `${host} is not an address of this machine: correct server.host (GATEWAY_SERVER_HOST)`,
        )
      }
    const env = { GATEWAY_SERVER_PORT: '0', GATEWAY_DATA_DIR: 'keys', GATEWAY_WORKER_ENABLED: 'false' }
    const message = await refusal(['start'], { ...env, GATEWAY_BOOTSTRAP_ADMIN_KEY: 'short' })
    expect(message).toStartWith('GATEWAY_BOOTSTRAP_ADMIN_KEY: a key must have')
    expect(existsSync(join(folder, 'keys'))).toBe(false)
  }, 60_000)

  test('a data folder that cannot be made', async () => {
    writeFileSync(join(folder, 'file'), '')
    const message = await refusal(['start'], { GATEWAY_SERVER_PORT: '0', GATEWAY_DATA_DIR: 'file/data' })
    expect(message).toContain('data.dir')
    expect(existsSync(join(folder, '.gateway'))).toBe(false)
  })
})

describe('where no gateway has run', () => {
  test.each(['verify', 'export', 'rebuild', 'worker', 'log restore', 'keys status', 'keys rotate'])(
    '%s says so and makes nothing',
    async (command) => {
      const dataDir = join(folder, 'new')
      expect(await refusal(command.split(' '), { GATEWAY_DATA_DIR: dataDir })).toBe(
        `data.dir: no gateway has run in ${dataDir} yet: start one (npm start), or name the folder of the one that is meant (GATEWAY_DATA_DIR)`,
      )
      expect(existsSync(dataDir)).toBe(false)
    },
  )
})

describe('the master key of a data folder', () => {
  const configOf = (dataDir: string) => loadConfig({ file: null, env: { GATEWAY_DATA_DIR: dataDir } }).config

  test('is made where files of a log stand that hold nothing, and for no log that holds something', async () => {
    const dataDir = mkdtempSync(join(folder, 'empty-log-'))
    const log = embeddedLog({ dataDir, nowMs: Date.now })
    await log.end(TOPICS.keys.name, 0)
    await log.close()
    expect(existsSync(join(dataDir, 'log', `${TOPICS.keys.name}.sqlite`))).toBe(true)
    expect(masterKeysFor(configOf(dataDir))).toHaveLength(1)

    const used = mkdtempSync(join(folder, 'used-log-'))
    const other = embeddedLog({ dataDir: used, nowMs: Date.now })
    await other.append(TOPICS.keys.name, 0, [{ key: 'k', value: new Uint8Array([1]) }])
    await other.close()
    expect(() => masterKeysFor(configOf(used))).toThrow('master.key is missing but the log it belongs to is there')
    expect(existsSync(join(used, 'master.key'))).toBe(false)
  })
})

test('topics without brokers says so', async () => {
  expect(await refusal(['topics'])).toContain('log.kafka.brokers is not set')
})
