// R31: load at 60 % of what the gateway can serve, and one random fault a minute: `bun tests/faults/gateway/soak.ts
// [minutes=60] [--one-life]`.
// `--one-life`: without the faults that end the gateway, so that one process runs all the time.
// One gateway, its worker, a broker behind a proxy, Postgres, Redis. Prints a line a minute; at the end lost and
// doubled outcomes, and the growth of RSS and descriptors.
import { readdirSync } from 'node:fs'
import { startPostgres } from '../../services/postgres.ts'
import { startRedis } from '../../services/redis.ts'
import { startTcpProxy } from '../../services/tcp-proxy.ts'
import { conclude } from '../control/figures.ts'
import { startTenantWriter } from '../failpoints/writer.ts'
import { compare, settledRows, startOracle } from '../oracle.ts'
import { failedOf, failuresText, openBroker, rssMb } from '../rig.ts'
import { settledInKafka } from '../settled.ts'

const MINUTES = Number(process.argv[2] ?? 60)
const MINUTE_MS = 60_000
const CLIENTS = 8
const LOAD_SHARE = 0.6
/** So long a fault lasts. */
const FAULT_MS = 15_000
/** Of a process, before its memory is compared: everything was loaded and used once. */
const WARM_MINUTES = 5
/** Minutes whose memory is compared with that of as many others. */
const COMPARED_MINUTES = 5
const SAMPLE_MS = 5_000
const MOST_GROWTH_MB = 25
const MOST_DESCRIPTORS = 50

const since = new Date(Date.now() - 1_000)
const [broker, postgres, redis] = await Promise.all([openBroker(), startPostgres(), startRedis()])
const redisProxy = await startTcpProxy()
redisProxy.to = Number(new URL(redis.url).port)
const gateway = broker.gateway({
  settings: {
    worker: { enabled: true },
    database: { url: postgres.url },
    redis: { url: `redis://127.0.0.1:${redisProxy.port}` },
  },
})
await gateway.until('ready', 120_000)

/** What eight clients without a pause get through. */
const capacity = async (): Promise<number> => {
  const oracle = startOracle(() => gateway, CLIENTS, 'sandbox-echo')
  await Bun.sleep(5_000)
  await oracle.stop()
  return oracle.complete.size / 5
}

interface Fault {
  readonly name: string
  run(): Promise<void>
}

const lasting = (name: string, begin: () => unknown, end: () => unknown): Fault => ({
  name,
  async run() {
    await begin()
    await Bun.sleep(FAULT_MS)
    await end()
  },
})

const { kafka, proxy } = broker
const ENDINGS: readonly Fault[] = [
  {
    name: 'kill -9 of the gateway',
    async run() {
      await gateway.end('SIGKILL')
      gateway.start()
      await gateway.until('serving', 60_000)
    },
  },
  {
    name: 'SIGTERM and start',
    async run() {
      await gateway.end()
      gateway.start()
      await gateway.until('serving', 60_000)
    },
  },
]

const FAULTS: readonly Fault[] = [
  lasting(
    'the gateway stopped',
    () => process.kill(gateway.pid, 'SIGSTOP'),
    () => process.kill(gateway.pid, 'SIGCONT'),
  ),
  lasting(
    'the broker stopped (SIGSTOP)',
    () => kafka.broker(0).pause(),
    () => kafka.broker(0).resume(),
  ),
  lasting(
    'the broker killed',
    () => kafka.broker(0).kill(),
    () => kafka.broker(0).restart(),
  ),
  lasting(
    'the broker refused',
    () => proxy.refuse(),
    () => proxy.accept(),
  ),
  lasting(
    "the broker's answers dropped",
    () => Object.assign(proxy, { dropAnswers: true }),
    () => {
      proxy.dropAnswers = false
      proxy.cut()
    },
  ),
  lasting(
    'the broker 300 ms away',
    () => Object.assign(proxy, { delayMs: 300 }),
    () => Object.assign(proxy, { delayMs: 0 }),
  ),
  lasting(
    'connections to the broker reset',
    () => Object.assign(proxy, { resetShare: 0.05 }),
    () => Object.assign(proxy, { resetShare: 0 }),
  ),
  lasting(
    'Postgres away',
    () => postgres.stop(),
    () => postgres.start(),
  ),
  lasting(
    'Redis away',
    () => redisProxy.refuse(),
    () => redisProxy.accept(),
  ),
  lasting(
    'Redis stopped (SIGSTOP)',
    () => process.kill(redis.pid, 'SIGSTOP'),
    () => process.kill(redis.pid, 'SIGCONT'),
  ),
]

interface Sample {
  /** MB. */
  readonly rss: number
  readonly descriptors: number
  readonly pid: number
}

const faults = process.argv.includes('--one-life') ? FAULTS : [...ENDINGS, ...FAULTS]

const descriptorsOf = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length

const perSecond = (await capacity()) * LOAD_SHARE
const oracle = startOracle(() => gateway, CLIENTS, 'sandbox-echo', (CLIENTS * 1_000) / perSecond)
const writer = startTenantWriter(gateway, 'soak', 5_000)
const samples: Sample[] = []
/** The least of this minute: what a collection leaves, not what it is about to find. */
let floor = Number.POSITIVE_INFINITY
const sampler = setInterval(() => {
  floor = Math.min(floor, rssMb(gateway.pid))
}, SAMPLE_MS)
console.error(`${perSecond.toFixed(0)} requests a second for ${MINUTES} minutes`)
for (let minute = 0; minute < MINUTES; minute++) {
  const untilMs = performance.now() + MINUTE_MS
  await Bun.sleep(Math.random() * (MINUTE_MS - 2 * FAULT_MS))
  const fault = faults[Math.floor(Math.random() * faults.length)]!
  await fault.run()
  await Bun.sleep(Math.max(0, untilMs - performance.now()))
  const sample = { rss: Math.min(floor, rssMb(gateway.pid)), descriptors: descriptorsOf(gateway.pid), pid: gateway.pid }
  samples.push(sample)
  floor = Number.POSITIVE_INFINITY
  console.error(
    `minute ${minute + 1}: ${fault.name}; sent ${oracle.sent.size}, complete ${oracle.complete.size}, failed ` +
      `${failedOf(oracle)}; RSS ${sample.rss.toFixed(0)} MB, descriptors ${sample.descriptors}`,
  )
}
clearInterval(sampler)
await oracle.stop()
await writer.stop()
await gateway.until('ready', Number.POSITIVE_INFINITY)
const inLog = await settledInKafka(broker.direct, oracle)
const rows = await settledRows(gateway, since, oracle.complete.size)
const inTables = compare(oracle, rows)
const tenants = await writer.compare()

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!

/**
 * Growth of the process that grew most over its warm life: MB, and over how many minutes. Null: no process lived long
 * enough.
 */
const growth = (): { readonly mb: number; readonly minutes: number } | null => {
  const grown = [...Map.groupBy(samples, ({ pid }) => pid).values()]
    .map((life) => life.slice(WARM_MINUTES).map((sample) => sample.rss))
    .filter((life) => life.length >= 2 * COMPARED_MINUTES)
    .map((life) => ({
      mb: median(life.slice(-COMPARED_MINUTES)) - median(life.slice(0, COMPARED_MINUTES)),
      minutes: life.length,
    }))
  return grown.toSorted((a, b) => b.mb - a.mb)[0] ?? null
}
const grown = growth()
/** A run that is long enough to show the growth of a process, and does not, proves nothing. */
const isFlat = grown === null ? MINUTES < WARM_MINUTES + 2 * COMPARED_MINUTES : grown.mb <= MOST_GROWTH_MB
const rss = samples.map((sample) => sample.rss)
const descriptors = samples.map((sample) => sample.descriptors)
const spread = Math.max(...descriptors) - Math.min(...descriptors)
await gateway.remove()
await redisProxy.stop()
await redis.stop()
await postgres.remove()
await broker.remove()
const wrong =
  inLog.lost + inLog.doubled + inLog.otherTokens + inTables.lost + inTables.doubled + tenants.lost + tenants.doubled
conclude([
  {
    row: 'R31',
    what: `${MINUTES} minutes at ${perSecond.toFixed(0)} requests a second, a random fault each`,
    figure:
      `in the log lost ${inLog.lost}, doubled ${inLog.doubled}, other tokens ${inLog.otherTokens} of ` +
      `${oracle.complete.size}; in the tables lost ${inTables.lost}, doubled ${inTables.doubled}; ` +
      `tenants told made and missing ${tenants.lost} of ${tenants.told}; failed ` +
      `${failedOf(oracle)} of ${oracle.sent.size} (${failuresText(oracle)}); ` +
      `RSS ${rss[0]!.toFixed(0)} to ${rss.at(-1)!.toFixed(0)}, at most ${Math.max(...rss).toFixed(0)} MB, ${grown === null ? 'no process lived long enough to say how it grows' : `the process that grew most by ${grown.mb.toFixed(0)} MB in ${grown.minutes} warm minutes`}; descriptors ${Math.min(...descriptors)} to ${Math.max(...descriptors)}`,
    n: oracle.complete.size,
    good: wrong === 0 && oracle.complete.size > 0 && isFlat && spread <= MOST_DESCRIPTORS,
  },
])
