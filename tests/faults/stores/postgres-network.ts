// R13: faults of the connections to Postgres: `bun tests/faults/stores/postgres-network.ts [--seconds 20] [part of a
// name]`.
// Inference is not affected, reads answer with the envelope within their time, and afterwards the tables hold every
// outcome once.
import { startGateway } from '../../services/gateway.ts'
import { socketOf, startPostgres, throughPort } from '../../services/postgres.ts'
import { startTcpProxy } from '../../services/tcp-proxy.ts'
import { conclude, type Figure, numberArgument } from '../control/figures.ts'
import { compare, percentiles, settledRows, startOracle } from '../oracle.ts'
import { failedOf, failuresText, untilRows, WITHOUT_LOAD_GATE, waitsBetween } from '../rig.ts'

const SECONDS = numberArgument('seconds', 20)
const ONLY = process.argv.slice(2).find((word) => /^[a-z]+$/.test(word)) ?? ''
const CLIENTS = 4
const EVERY_MS = 40
const WELL_MS = 5_000
const MOST_READ_MS = 15_000
const MOST_ADDED_MS = 50
const CATCHES_UP_WITHIN_MS = 120_000

interface Fault {
  readonly name: string
  begin(): unknown
  end(): unknown
  readonly again?: () => unknown
  /** Nothing can be read during the fault, and `/ready` reports it. */
  readonly isAway: boolean
}

const postgres = await startPostgres()
const proxy = await startTcpProxy()
proxy.to = socketOf(postgres.url)
const near = throughPort(postgres.url, proxy.port)

const set = (fault: 'blackhole' | 'dropAnswers') => ({
  begin: () => Object.assign(proxy, { [fault]: true }),
  end() {
    proxy[fault] = false
    proxy.cut()
  },
})
const nothing = { begin() {}, end() {} }
const FAULTS: readonly Fault[] = [
  { name: 'refused', begin: () => proxy.refuse(), end: () => proxy.accept(), isAway: true },
  { name: 'swallowed', ...set('blackhole'), isAway: true },
  { name: 'their answers lost', ...set('dropAnswers'), isAway: true },
  { name: 'reset five times a second', ...nothing, again: () => proxy.reset(), isAway: false },
  { name: 'half closed five times a second', ...nothing, again: () => proxy.halfClose(), isAway: false },
  {
    name: 'throttled to 20 KB a second',
    begin: () => Object.assign(proxy, { bytesPerSecond: 20_000 }),
    end: () => Object.assign(proxy, { bytesPerSecond: Number.POSITIVE_INFINITY }),
    isAway: false,
  },
]

const gateway = startGateway({ settings: { ...WITHOUT_LOAD_GATE, database: { url: near } } })
await gateway.until('ready', 60_000)
const warming = startOracle(() => gateway, CLIENTS, 'sandbox-echo', EVERY_MS)
await Bun.sleep(WELL_MS)
await warming.stop()

interface Seen {
  readonly ready: number
  readonly status: number
  readonly isTold: boolean
  readonly ms: number
}

const look = async (): Promise<Seen> => {
  const ready = await gateway.request('/ready')
  await ready.text()
  const startedMs = performance.now()
  const read = await gateway.request('/admin/v1/requests', { signal: AbortSignal.timeout(60_000) })
  const body = (await read.json()) as { error?: { code?: string } }
  const isTold = read.ok || (read.status >= 500 && body.error?.code !== undefined)
  return { ready: ready.status, status: read.status, isTold, ms: performance.now() - startedMs }
}

const counts = (values: readonly number[]): string =>
  [...Map.groupBy(values, (value) => value)].map(([value, all]) => `${value}: ${all.length}`).join(', ')

const runFault = async ({ name, begin, end, again, isAway }: Fault): Promise<Figure> => {
  const since = new Date(Date.now() - 1_000)
  const oracle = startOracle(() => gateway, CLIENTS, 'sandbox-echo', EVERY_MS)
  const begunMs = performance.now()
  await Bun.sleep(WELL_MS)
  const faultMs = performance.now()
  await begin()
  const untilMs = faultMs + SECONDS * 1_000
  const looks: Seen[] = []
  const looking = (async () => {
    // Until the fault is known: a connection that is swallowed ends by its deadline.
    await Bun.sleep(2_000)
    while (performance.now() < untilMs) {
      looks.push(await look())
      await Bun.sleep(250)
    }
  })()
  while (performance.now() < untilMs) {
    await again?.()
    await Bun.sleep(200)
  }
  await looking
  await end()
  const healedMs = performance.now()
  await oracle.stop()
  const caughtUpMs = await untilRows(gateway, since, oracle.complete.size, CATCHES_UP_WITHIN_MS)
  const rows = await settledRows(gateway, since, oracle.complete.size)
  const { lost, doubled, otherTokens } = compare(oracle, rows)
  const [well, ill] = [waitsBetween(oracle, begunMs, faultMs), waitsBetween(oracle, faultMs, healedMs)]
  const addedMs = ill.p99 - well.p99
  const reads = percentiles(looks.map(({ ms }) => ms))
  const untold = looks.filter(({ isTold }) => !isTold).length
  const away = looks.filter(({ ready, status }) => ready === 503 && status >= 500).length
  return {
    row: 'R13',
    what: `connections to Postgres ${name}, ${SECONDS} s`,
    figure:
      `inference failed ${failedOf(oracle)} of ${oracle.sent.size} (${failuresText(oracle)}); first byte p99 ` +
      `${well.p99.toFixed(1)} ms before, ${ill.p99.toFixed(1)} meanwhile, delta ${addedMs.toFixed(1)}; ` +
      `/ready ${counts(looks.map(({ ready }) => ready))}; reads ` +
      `${counts(looks.map(({ status }) => status))}, slowest ${reads.max.toFixed(0)} ms, without an ` +
      `envelope ${untold}; ` +
      `missing ${lost} of ${oracle.complete.size}, doubled ${doubled}, other tokens ` +
      `${otherTokens}; caught up ${(caughtUpMs / 1_000).toFixed(1)} s after`,
    n: oracle.complete.size,
    good:
      failedOf(oracle) + lost + doubled + otherTokens + untold === 0 &&
      oracle.complete.size > 0 &&
      looks.length > 0 &&
      (!isAway || away === looks.length) &&
      reads.max < MOST_READ_MS &&
      addedMs < MOST_ADDED_MS,
  }
}

const figures: Figure[] = []
for (const fault of FAULTS) {
  if (!fault.name.includes(ONLY)) continue
  const figure = await runFault(fault)
  console.error(`${figure.what}: ${figure.figure}`)
  figures.push(figure)
}
await gateway.remove()
await proxy.stop()
await postgres.remove()
conclude(figures)
