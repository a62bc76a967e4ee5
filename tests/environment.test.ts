// Tests run without the caller's settings, credentials and data.
import { expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isGatewayVariable, withoutGatewayVariables } from './environment.ts'
import { runCommand } from './services/command.ts'

const ROOT = dirname(import.meta.dir)

test('a gateway reads settings, first keys and credentials; tests get none of them', () => {
  const caller = {
    ...{ GATEWAY_SERVER_PORT: '1', GATEWAY_BOOTSTRAP_ADMIN_KEY: 'k', GATELOG_FAILPOINT: 'x', OTEL_SERVICE_NAME: 'x' },
    ...{ OPENAI_API_KEY: 'k', AZURE_OPENAI_ENDPOINT: 'http://a', GEMINI_API_KEY: 'k' },
  }
  const kept = { PATH: '/bin', GATELOG_TEST_KAFKA: '127.0.0.1:1', BENCH_ROUNDS: '3' }
  expect(withoutGatewayVariables({ ...caller, ...kept })).toEqual(kept)
  expect(Object.keys(process.env).filter(isGatewayVariable)).toEqual([])
})

test('the working folder of tests is none of the clone, and holds no settings and no data', () => {
  expect(process.cwd()).not.toStartWith(ROOT)
  for (const name of ['gateway.yaml', '.gateway', '.env']) expect([name, existsSync(name)]).toEqual([name, false])
})

test('a command that a test starts has the defaults, in a folder of its own', async () => {
  const { code, out } = await runCommand(['config', '--print'])
  expect(code).toBe(0)
  expect(out.split('\n').filter((line) => line !== '' && !line.endsWith('# default'))).toEqual([])
})

/** Variables that tests and benches may read of their caller; a gateway reads none of them. */
const READABLE =
  /^(PATH|HOME|TMPDIR|NODE_ENV|XDG_CACHE_HOME|VERBOSE|OBJECT_COUNTS|(BENCH|FAULT|HEAP|GATELOG_TEST)_\w+)$/
/** Files that hand the environment on, and how they may. */
const ALLOWED: Readonly<Record<string, string>> = {
  'tests/environment.ts': 'takes out what a gateway reads',
  'tests/environment.test.ts': 'looks that it is out',
  'tests/preload.ts': 'takes it out of the process of the tests',
  'tests/faults/disks/own-disk.ts': 'looks whether it runs with a disk of its own',
  'tests/services/system.ts': 'apt-get',
  'tests/launch-signals.test.ts': 'as launch.test.ts',
  'tests/launch.test.ts': 'the text of a program that is started with an environment of its own',
}
/** Files that start the command line: the helpers; two print its help, or start a program of their own in its place. */
const STARTERS = [
  'tests/bundle.test.ts',
  'tests/launch-signals.test.ts',
  'tests/launch.test.ts',
  'tests/services/command.ts',
  'tests/services/gateway.ts',
]

test("no test reads the caller's environment, and gateways are started by the helpers", () => {
  const [readers, starters]: [string[], string[]] = [[], []]
  for (const path of new Bun.Glob('tests/**/*.ts').scanSync({ cwd: ROOT })) {
    const text = readFileSync(join(ROOT, path), 'utf8')
    const names = [...text.matchAll(/\b(?:process|Bun)\.env\b(?:\.(\w+))?/g)].map(([, name]) => name ?? '')
    if (names.some((name) => !READABLE.test(name))) readers.push(path)
    if (/commands\/cli\.ts'/.test(text) && /\bspawn(Sync)?\(/.test(text)) starters.push(path)
  }
  expect(readers.filter((path) => !(path in ALLOWED))).toEqual([])
  expect(Object.keys(ALLOWED).filter((path) => !readers.includes(path))).toEqual([])
  expect(starters.sort()).toEqual(STARTERS)
})
