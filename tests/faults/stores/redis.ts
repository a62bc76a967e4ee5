// R15: faults of Redis while it counts a rate limit: `bun tests/faults/stores/redis.ts [--seconds 15]`. Requests go on,
// at most 50 ms later.
import { RedisClient } from 'bun'
import { startGateway } from '../../services/gateway.ts'
import { startRedis } from '../../services/redis.ts'
import { startTcpProxy } from '../../services/tcp-proxy.ts'
import { conclude, type Figure, numberArgument } from '../control/figures.ts'
import { percentiles, startOracle } from '../oracle.ts'
import { failedOf, failuresText, WITHOUT_LOAD_GATE } from '../rig.ts'

const SECONDS = numberArgument('seconds', 15)
/** What a request waits for Redis, and what this machine may add to it. */
const CAP_MS = 50
const NOISE_MS = 50
/** The rate limit of the key, and how many requests it sends while one fault lasts. */
const NARROW_RPM = 20
const NARROW_ASKS = 60

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
  /**
   * The most requests of the narrow key that may be admitted: those that Redis has counted, then those that the process
   * counts by itself. Not checked where Redis loses its data.
   */
  readonly most?: number
}

const FAULTS: readonly Fault[] = [
  { name: 'well', begin() {}, end() {}, most: NARROW_RPM },
  { name: 'refuses connections', begin: () => proxy.refuse(), end: () => proxy.accept(), most: NARROW_RPM },
  {
    name: 'swallows everything',
    begin: () => Object.assign(proxy, { blackhole: true }),
    end() {
      proxy.blackhole = false
      proxy.cut()
    },
    most: NARROW_RPM,
  },
  {
    name: 'stands still (SIGSTOP)',
    begin: () => process.kill(redis.pid, 'SIGSTOP'),
    end: () => process.kill(redis.pid, 'SIGCONT'),
    most: NARROW_RPM,
  },
  {
    name: 'is 200 ms away',
    begin: () => Object.assign(proxy, { delayMs: 100 }),
    end: () => Object.assign(proxy, { delayMs: 0 }),
    most: 2 * NARROW_RPM,
  },
  {
    name: 'resets its connections five times a second',
    begin() {},
    end() {},
    again: () => proxy.reset(),
    most: 2 * NARROW_RPM,
  },
  {
    name: 'half-closes its connections five times a second',
    begin() {},
    end() {},
    again: () => proxy.halfClose(),
    most: 2 * NARROW_RPM,
  },
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

/** Sends one request with a separate key limited to `NARROW_RPM`, and returns whether it was admitted. */
const narrowKey = async (name: string): Promise<() => Promise<boolean>> => {
  const { tenants } = (await (await gateway.request('/admin/v1/tenants')).json()) as { tenants: { id: string }[] }
  const body = { name, tenant_id: tenants[0]!.id, scopes: ['inference'], rate_limits: { rpm: NARROW_RPM } }
  const made = await gateway.request('/admin/v1/keys', { body })
  if (made.status !== 201) throw new Error(await made.text())
  const { plaintext: key } = (await made.json()) as { plaintext: string }
  const hello = { model: 'sandbox-echo', messages: [{ role: 'user', content: 'hello' }] }
  return async () => {
    const answer = await gateway.request('/v1/chat/completions', { key, body: hello })
    await answer.arrayBuffer()
    if (answer.status !== 200 && answer.status !== 429) throw new Error(`the narrow key was answered ${answer.status}`)
    return answer.status === 200
  }
}

let baseP99Ms = 0
const runFault = async ({ name, begin, end, again, most }: Fault): Promise<Figure> => {
  const narrow = await narrowKey(`narrow: ${name}`)
  const oracle = startOracle(() => gateway, 4, 'sandbox-echo')
  await begin()
  const startedMs = performance.now()
  let [asks, letIn] = [0, 0]
  for (let sinceMs = 0; sinceMs < SECONDS * 1_000; sinceMs = performance.now() - startedMs) {
    await again?.()
    for (; asks < (NARROW_ASKS * sinceMs) / (SECONDS * 1_000); asks++) if (await narrow()) letIn++
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
    figure:
      `failed ${failedOf(oracle)} of ${oracle.sent.size} (${failuresText(oracle)}); answers to something else ` +
      `${oracle.strange.size} of ${oracle.complete.size}; first byte p50 ${waits.p50.toFixed(1)}, p99 ` +
      `${waits.p99.toFixed(1)} (added ${addedMs.toFixed(1)}), max ${waits.max.toFixed(0)} ms; of ${asks} of a key of ` +
      `${NARROW_RPM} a minute let in ${letIn}${most === undefined ? '' : `, at most ${most}`}`,
    n: oracle.sent.size,
    good:
      failedOf(oracle) + oracle.strange.size === 0 &&
      oracle.complete.size > 0 &&
      addedMs < CAP_MS + NOISE_MS &&
      letIn > 0 &&
      letIn <= (most ?? asks),
  }
}

const warming = startOracle(() => gateway, 4, 'sandbox-echo')
await warming.answered(1_000)
await warming.stop()
const figures: Figure[] = []
for (const fault of FAULTS) {
  const figure = await runFault(fault)
  console.error(`${figure.what}: ${figure.figure}`)
  figures.push(figure)
}
// The last fault has emptied it: what comes now is counted anew.
const again = startOracle(() => gateway, 4, 'sandbox-echo')
await again.answered(100)
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
