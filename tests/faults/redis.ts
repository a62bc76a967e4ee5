// R15: what can become of Redis while a rate limit is counted in it: `bun tests/faults/redis.ts [--seconds 15]`. Requests go on, at most 50 ms later.
import { RedisClient } from 'bun'
import { startGateway } from '../services/gateway.ts'
import { startRedis } from '../services/redis.ts'
import { startTcpProxy } from '../services/tcp-proxy.ts'
import { conclude, type Figure, numberArgument } from './control/figures.ts'
import { percentiles, startOracle } from './oracle.ts'
import { failedOf, failuresText, WITHOUT_LOAD_GATE } from './rig.ts'

const SECONDS = numberArgument('seconds', 15)
/** What a request waits for Redis, and what this machine may add to it. */
const CAP_MS = 50
const NOISE_MS = 50

const redis = await startRedis()
const proxy = await startTcpProxy()
proxy.to = Number(new URL(redis.url).port)
const direct = new RedisClient(redis.url)
const gateway = startGateway({
  settings: {
    ...WITHOUT_LOAD_GATE,
    redis: { url: `redis://127.0.0.1:${proxy.port}` },
    worker: { enabled: false },
    bootstrap: {
      providers: [{ name: 'sandbox', kind: 'sandbox', models: [{ name: 'sandbox-echo' }] }],
      policies: [{ name: 'default', rate_limits: { rpm: 100_000_000 } }],
    },
  },
})
await gateway.until('serving', 60_000)

interface Fault {
  readonly name: string
  begin(): unknown
  end(): unknown
  readonly again?: () => unknown
}

const FAULTS: readonly Fault[] = [
  { name: 'well', begin() {}, end() {} },
  { name: 'refuses connections', begin: () => proxy.refuse(), end: () => proxy.accept() },
  {
    name: 'swallows everything',
    begin: () => Object.assign(proxy, { blackhole: true }),
    end() {
      proxy.blackhole = false
      proxy.cut()
    },
  },
  {
    name: 'stands still (SIGSTOP)',
    begin: () => process.kill(redis.pid, 'SIGSTOP'),
    end: () => process.kill(redis.pid, 'SIGCONT'),
  },
  {
    name: 'is 200 ms away',
    begin: () => Object.assign(proxy, { delayMs: 100 }),
    end: () => Object.assign(proxy, { delayMs: 0 }),
  },
  { name: 'resets its connections five times a second', begin() {}, end() {}, again: () => proxy.reset() },
  { name: 'half-closes its connections five times a second', begin() {}, end() {}, again: () => proxy.halfClose() },
  { name: 'is emptied five times a second, scripts too', begin() {}, end() {}, again: () => emptied() },
  { name: 'holds values of others under our keys', begin() {}, end: () => emptied(), again: () => garbage() },
]

const emptied = async () => {
  await direct.send('FLUSHALL', [])
  await direct.send('SCRIPT', ['FLUSH'])
}
const garbage = async () => {
  const keys = (await direct.send('KEYS', ['*'])) as string[]
  for (const key of keys) {
    await direct.send('DEL', [key])
    await direct.send('SET', [key, 'not yours'])
  }
}

let baseP99Ms = 0
const runFault = async ({ name, begin, end, again }: Fault): Promise<Figure> => {
  const oracle = startOracle(() => gateway, 4, 'sandbox-echo')
  await begin()
  const untilMs = performance.now() + SECONDS * 1_000
  while (performance.now() < untilMs) {
    await again?.()
    await Bun.sleep(200)
  }
  await oracle.stop()
  await end()
  const waits = percentiles([...oracle.seen.values()].map(({ sentMs, firstByteMs }) => firstByteMs - sentMs))
  if (baseP99Ms === 0) baseP99Ms = waits.p99
  const addedMs = waits.p99 - baseP99Ms
  return {
    row: 'R15',
    what: `Redis ${name}, ${SECONDS} s`,
    figure: `failed ${failedOf(oracle)} of ${oracle.sent.size} (${failuresText(oracle)}); answers to something else ${oracle.strange.size} of ${oracle.complete.size}; first byte p50 ${waits.p50.toFixed(1)}, p99 ${waits.p99.toFixed(1)} (added ${addedMs.toFixed(1)}), max ${waits.max.toFixed(0)} ms`,
    n: oracle.sent.size,
    good: failedOf(oracle) + oracle.strange.size === 0 && oracle.complete.size > 0 && addedMs < CAP_MS + NOISE_MS,
  }
}

const warming = startOracle(() => gateway, 4, 'sandbox-echo')
await Bun.sleep(2_000)
await warming.stop()
const figures: Figure[] = []
for (const fault of FAULTS) {
  const figure = await runFault(fault)
  console.error(`${figure.what}: ${figure.figure}`)
  figures.push(figure)
}
// The last fault has emptied it: what comes now is counted anew.
const again = startOracle(() => gateway, 4, 'sandbox-echo')
await Bun.sleep(2_000)
await again.stop()
const isCounted = ((await direct.send('KEYS', ['*'])) as string[]).length > 0
await gateway.remove()
direct.close()
await proxy.stop()
await redis.stop()
// Otherwise nothing of this was about Redis.
conclude([
  ...figures,
  { row: 'R15', what: 'counted in Redis once it is well', figure: isCounted ? 'yes' : 'no', n: 1, good: isCounted },
])
