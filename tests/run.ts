// `npm test`: installs missing tools, starts a real Kafka broker, Postgres and Redis once, runs every check and every
// test, stops them.
// The last line is `N passed, N failed`; the exit code is 0 only when nothing failed. Arguments are file filters, as
// for `bun test`.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../infra/kafka/kafka.ts'
import { withoutGatewayVariables } from './environment.ts'
import { Failures } from './failures.ts'
import { startPostgres } from './services/postgres.ts'
import { startRedis } from './services/redis.ts'
import { provideSystemNeeds } from './services/system.ts'

const ROOT = join(import.meta.dir, '..')
const TEST_TIMEOUT_MS = 60_000
/**
 * The simulation replaces its clock and needs only processor time. It runs beside the other tests, which mostly wait,
 * and gets the time that they leave.
 */
const BESIDE = 'simulation'
/** How much it gives way to them: as `nice` counts. */
const GIVES_WAY = 10

interface Count {
  passed: number
  failed: number
}

const count: Count = { passed: 0, failed: 0 }
const scratch = mkdtempSync(join(tmpdir(), 'gatelog-test-'))
const stops: (() => Promise<void>)[] = []
/** Of each stream of the test runner. */
const streams: Failures[] = []
const running = new Set<ReturnType<typeof Bun.spawn>>()
let interrupted = false

const step = (name: string, ok: boolean, seconds: number) => {
  if (ok) count.passed++
  else count.failed++
  console.log(`${ok ? 'passed' : 'FAILED'}  ${name}  (${seconds.toFixed(1)} s)`)
}

/** Runs a program in the foreground and answers its exit code. */
const run = async (args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<number> => {
  const child = Bun.spawn([process.execPath, ...args], {
    cwd: ROOT,
    stdin: 'ignore',
    stdout: 'inherit',
    stderr: 'inherit',
    env: { ...withoutGatewayVariables(), ...env },
  })
  running.add(child)
  const code = await child.exited
  running.delete(child)
  return code
}

/**
 * Runs the test runner and collects the failures from its output. Passes the output on as it comes, or, `beside`
 * others, once the runner has ended.
 */
const runTests = async (
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  beside = false,
): Promise<number> => {
  const options = {
    cwd: ROOT,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    env: { ...withoutGatewayVariables(), ...env },
  } as const
  const child = Bun.spawn([process.execPath, ...args], options)
  if (beside) setPriority(child.pid, GIVES_WAY)
  running.add(child)
  const held: string[] = []
  const passOn = async (from: ReadableStream<Uint8Array>, to: NodeJS.WriteStream) => {
    const decoder = new TextDecoder()
    const failures = new Failures()
    streams.push(failures)
    for await (const bytes of from) {
      const text = decoder.decode(bytes, { stream: true })
      failures.add(text)
      if (beside) held.push(text)
      else to.write(text)
    }
  }
  const [code] = await Promise.all([
    child.exited,
    passOn(child.stdout, process.stdout),
    passOn(child.stderr, process.stderr),
  ])
  running.delete(child)
  if (beside) console.log(`\nbeside the other tests:\n${held.join('')}`)
  return code
}

/** Prints the failures once more at the end, where they are easy to find: thousands of lines may stand between. */
const tellFailures = () => {
  const told = streams.flatMap((failures) => failures.told)
  if (told.length === 0) return
  console.log(`\nwhat failed, once more (${told.length}):`)
  for (const lines of told) console.log(`\n${lines.join('\n')}`)
  console.log('')
}

const check = async (name: string, args: readonly string[]) => {
  const startedAt = performance.now()
  const code = await run(args)
  step(name, code === 0, (performance.now() - startedAt) / 1_000)
}

/**
 * Starts a service and passes its address to the tests in an environment variable. A service that does not start is a
 * failure, never a skip.
 */
const provide = async (
  name: string,
  start: () => Promise<{ address: string; stop(): Promise<void> }>,
): Promise<string> => {
  const startedAt = performance.now()
  try {
    const { address, stop } = await start()
    stops.push(stop)
    step(name, true, (performance.now() - startedAt) / 1_000)
    return address
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    step(name, false, (performance.now() - startedAt) / 1_000)
    return ''
  }
}

const startServices = async (): Promise<Record<string, string>> => {
  const [kafka, postgres, redis] = await Promise.all([
    provide('Kafka broker', async () => {
      const cluster = await startKafka()
      return { address: cluster.bootstrap.join(','), stop: () => cluster.stop() }
    }),
    provide('Postgres', async () => {
      const server = await startPostgres({ makesDatabases: true })
      return { address: server.url, stop: () => server.remove() }
    }),
    provide('Redis', async () => {
      const server = await startRedis()
      return { address: server.url, stop: server.stop }
    }),
  ])
  return { GATELOG_TEST_KAFKA: kafka, GATELOG_TEST_POSTGRES: postgres, GATELOG_TEST_REDIS: redis }
}

/** Adds the results of the JUnit report. A skipped test counts as failed: nothing here may depend on luck. */
const addReport = (path: string, code: number) => {
  let report = ''
  try {
    report = readFileSync(path, 'utf8')
  } catch {
    console.error('the test runner wrote no report')
  }
  const number = (name: string) => Number(new RegExp(`<testsuites[^>]* ${name}="(\\d+)"`).exec(report)?.[1] ?? 0)
  const failed = number('failures') + number('skipped')
  if (number('skipped') > 0) console.error(`${number('skipped')} skipped tests count as failed`)
  count.passed += number('tests') - failed
  count.failed += failed === 0 && code !== 0 ? 1 : failed // an error outside of any test has no line in the report
}

const stopAll = async () => {
  for (const result of await Promise.allSettled(stops.splice(0).map((stop) => stop()))) {
    if (result.status === 'rejected') console.error('a service did not stop:', result.reason)
  }
  rmSync(scratch, { recursive: true, force: true })
}

const main = async (filters: readonly string[]): Promise<void> => {
  const missing = await provideSystemNeeds()
  if (missing !== null) {
    console.error(missing)
    count.failed++
    return
  }
  await check('types (tsc)', ['node_modules/typescript/bin/tsc', '--noEmit', '-p', '.'])
  await check('format and lint (biome)', ['node_modules/@biomejs/biome/bin/biome', 'check', '.'])
  const services = await startServices()
  if (interrupted) return
  const report = async (name: string, filters: readonly string[], beside = false) => {
    const path = join(scratch, `${name}.xml`)
    const flags = [`--timeout=${TEST_TIMEOUT_MS}`, '--reporter=junit', `--reporter-outfile=${path}`]
    addReport(path, await runTests(['test', ...flags, ...filters], services, beside))
  }
  if (filters.length > 0) await report('asked', filters)
  else await Promise.all([report('all', others()), report(BESIDE, [`tests/${BESIDE}`], true)])
}

/** All that holds tests, but for what runs beside it. */
const others = (): string[] =>
  readdirSync(join(ROOT, 'tests'), { withFileTypes: true })
    .filter((entry) => (entry.isDirectory() ? entry.name !== BESIDE : entry.name.endsWith('.test.ts')))
    .map((entry) => (entry.isDirectory() ? `tests/${entry.name}/` : `tests/${entry.name}`))

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    interrupted = true
    for (const child of running) child.kill(signal)
  })
}

const startedAt = performance.now()
try {
  await main(process.argv.slice(2))
} catch (error) {
  console.error(error)
  count.failed++
} finally {
  await stopAll()
}
tellFailures()
if (interrupted) count.failed++
console.log(`${((performance.now() - startedAt) / 1_000).toFixed(0)} s`)
console.log(`${count.passed} passed, ${count.failed} failed`)
process.exit(count.failed === 0 && count.passed > 0 ? 0 : 1)
