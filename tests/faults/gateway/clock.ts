// R29: the wall clock of one of two gateways jumps an hour ahead, an hour back, and by steps, under load: `bun
// tests/faults/gateway/clock.ts [--seconds 10]`.
// The state uses log time: both gateways fold alike, nothing is lost, no deadline and no window of a budget moves.
// Prints how early or late keys end.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from '../../services/eventually.ts'
import type { GatewayProcess } from '../../services/gateway.ts'
import { startUpstream } from '../../services/upstream.ts'
import { conclude, numberArgument } from '../control/figures.ts'
import { startTenantWriter } from '../failpoints/writer.ts'
import { startOracle } from '../oracle.ts'
import { failedOf, failuresText, openBroker } from '../rig.ts'
import { settledInKafka } from '../settled.ts'
import { type Ended, HUNG, HUNG_MS, PRICED, watchExpiries } from './clock-expiries.ts'

const SECONDS = numberArgument('seconds', 10)
const HOUR_MS = 3_600_000

const folder = mkdtempSync(join(tmpdir(), 'gatelog-clock-'))
const path = join(folder, 'offset')
writeFileSync(path, '0')
const broker = await openBroker()
const hung = startUpstream({ behaviour: { delayMs: Number.POSITIVE_INFINITY } })
const good = startUpstream()
const settings = {
  health: { probe_interval: 'off' },
  bootstrap: {
    providers: [
      {
        ...{ name: HUNG, kind: 'openai_compatible', base_url: hung.baseUrl, timeout_ms: HUNG_MS },
        models: [{ name: HUNG }],
      },
      { name: PRICED, kind: 'openai_compatible', base_url: good.baseUrl },
      { name: 'sandbox', kind: 'sandbox', models: [{ name: 'sandbox-echo' }] },
    ],
    models: [{ ...{ name: PRICED, provider: PRICED }, input_cost_per_million: 1, output_cost_per_million: 10 }],
    policies: [
      { name: 'default', retry: { attempts: 0 }, breaker: { failure_threshold: 1_000, minimum_requests: 1_000 } },
    ],
  },
}
const steady = broker.gateway({ settings })
await steady.until('serving', 60_000)
const jumping = broker.gateway({
  settings,
  preload: [join(import.meta.dir, '../preloads/clock.ts')],
  env: { FAULT_CLOCK: path },
})
await jumping.until('serving', 60_000)
const expiries = await watchExpiries([steady, jumping])

/** The gateway's report of its control state: rows and revision. */
const stateOf = async (gateway: GatewayProcess): Promise<string> => {
  const parts: string[] = []
  for (const list of ['tenants?limit=1000', 'policies']) {
    const answer = await gateway.request(`/admin/v1/${list}`)
    if (!answer.ok) throw new Error(`GET /admin/v1/${list}: ${answer.status}`)
    parts.push(answer.headers.get('X-Gateway-Revision') ?? '', await answer.text())
  }
  return parts.join('\n')
}

const oracles = [startOracle(() => steady, 3, 'sandbox-echo'), startOracle(() => jumping, 3, 'sandbox-echo')]
const writers = [startTenantWriter(steady, 'steady', 50), startTenantWriter(jumping, 'jumping', 50)]
for (const offsetMs of [HOUR_MS, -HOUR_MS, 0, 5_000, -5_000, 90_000_000, 0]) {
  const untilMs = performance.now() + SECONDS * 1_000
  await expiries.during(() => writeFileSync(path, String(offsetMs)))
  await Bun.sleep(Math.max(0, untilMs - performance.now()))
}
for (const oracle of oracles) await oracle.stop()
for (const writer of writers) await writer.stop()
const settled = []
for (const oracle of oracles) settled.push(await settledInKafka(broker.direct, oracle))
const tenants = [await writers[0]!.compare(), await writers[1]!.compare()]
const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0)
const lost = sum(settled.map((each) => each.lost))
const doubled = sum(settled.map((each) => each.doubled))
const missing = sum(tenants.map((each) => each.lost + each.doubled))
const told = sum(tenants.map((each) => each.told))
const failed = sum(oracles.map(failedOf))
const complete = sum(oracles.map((oracle) => oracle.complete.size))
const equal = await eventually(
  'both have the same state',
  async () => (await stateOf(steady)) === (await stateOf(jumping)),
  { limitMs: 10_000, everyMs: 100 },
).catch(() => false)
if (!equal) {
  const [one, other] = [(await stateOf(steady)).split(/[\n,]/), (await stateOf(jumping)).split(/[\n,]/)]
  for (const [i, line] of one.entries()) if (line !== other[i]) console.error(`differs: ${line} and ${other[i]}`)
}
await jumping.remove()
await steady.remove()
await broker.remove()
await hung.stop()
await good.stop()
const { deadlines, keys, windows } = expiries
const ended = ({ early, late, n, mostMs }: Ended) =>
  `early ${early}, late ${late} of ${n} (most ${mostMs.toFixed(0)} ms)`
rmSync(folder, { recursive: true, force: true })
conclude([
  {
    row: 'R29',
    what: `the wall clock of one of two gateways jumps +1 h, -1 h, ±5 s, +25 h, ${SECONDS} s each`,
    figure:
      `inference failed ${failed} of ${sum(oracles.map((oracle) => oracle.sent.size))} ` +
      `(${oracles.map(failuresText).join('; ')}); lost ${lost} of ${complete}, doubled ${doubled}; ` +
      `tenants told made and missing or doubled ${missing} of ${told}; rows and ` +
      `revision of both equal ${equal ? 'yes' : 'no'}; ` +
      `deadlines of the one that jumps ${ended(deadlines)}; a spent budget of a day ` +
      `let through ${windows.opened} of ${windows.asked}; ` +
      `keys ended, on the one that does not jump ${ended(keys[0]!)}, on the one that does ${ended(keys[1]!)}`,
    n: complete,
    // A key ends at a date, so it depends on the clock. How far off it is on a machine with a wrong clock is a figure,
    // not an aim.
    good:
      failed + lost + doubled + missing + windows.opened === 0 &&
      deadlines.early + deadlines.late + keys[0]!.early + keys[0]!.late === 0 &&
      equal === true,
  },
])
