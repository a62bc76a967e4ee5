// R28: what a gateway serves at 1x, 3x and 10x of what it can, by an open-loop load on loopback. Prints goodput, refusals, latencies and memory.
// `bun tests/faults/overload.ts [seconds of each step] [words of an answer] [off]`; `off`: without admission by load.
import { readFileSync } from 'node:fs'
import { INFERENCE_KEY, startGateway } from '../services/gateway.ts'
import { openLoad } from './open-load.ts'
import { percentiles } from './oracle.ts'

const STEP_MS = Number(process.argv[2] ?? 15) * 1_000
const WORDS = Number(process.argv[3] ?? 200)
const IS_OFF = process.argv[4] === 'off'
const CONNECTIONS = 2_000
/** Before figures are taken: the gate needs about two seconds to see a load. */
const SETTLE_MS = 5_000
const FIRST_PER_SECOND = 50

const body = JSON.stringify({
  model: 'sandbox-echo',
  stream: true,
  stream_options: { include_usage: true },
  messages: [{ role: 'user', content: Array.from({ length: WORDS }, (_, i) => `word${i}`).join(' ') }],
})
const request = new TextEncoder().encode(
  [
    'POST /v1/chat/completions HTTP/1.1',
    'Host: gateway.test',
    `Authorization: Bearer ${INFERENCE_KEY}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
    '',
    body,
  ].join('\r\n'),
)

const gateway = startGateway({
  settings: {
    worker: { enabled: false },
    ...(IS_OFF ? { server: { max_event_loop_delay: 'off' } } : {}),
  },
})
await gateway.until('serving', 60_000)
const port = Number(new URL(gateway.url).port)
const rssMb = () => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8'))![1]) / 1_024

const load = openLoad(port, request, CONNECTIONS)
/** The most that is served, found by asking for more until it is not. */
const capacity = async (): Promise<number> => {
  await load.run(FIRST_PER_SECOND, 3_000)
  let best = 0
  for (let rate = 200; ; rate *= 1.25) {
    const { served, refused, failed, unsent } = await load.run(rate, 3_000)
    best = Math.max(best, served / 3)
    if (served / 3 < rate * 0.97 || refused + failed + unsent > 0) return best
  }
}

const top = await capacity()
console.log(`capacity ${top.toFixed(0)} streams of ${WORDS} words a second; admission by load ${IS_OFF ? 'off' : 'on'}`)
const rows: string[] = []
for (const factor of [0.5, 1, 3, 10]) {
  await load.run(FIRST_PER_SECOND, 8_000) // back to rest
  await load.run(factor * top, SETTLE_MS)
  const { served, refused, failed, unsent, servedMs, refusedMs } = await load.run(factor * top, STEP_MS)
  const latency = percentiles(servedMs)
  const goodput = (served * 1_000) / STEP_MS
  rows.push(
    `${factor}x: offered ${(factor * top).toFixed(0)}/s, goodput ${goodput.toFixed(0)}/s (${((goodput / top) * 100).toFixed(0)} % of capacity), ` +
      `refused ${refused}, failed ${failed}, not sent ${unsent}; served p50 ${latency.p50.toFixed(0)}, p99 ${latency.p99.toFixed(0)} ms; ` +
      `refusals p99 ${percentiles(refusedMs).p99.toFixed(0)} ms; RSS ${rssMb().toFixed(0)} MB; N ${served + refused + failed + unsent}`,
  )
  console.log(rows.at(-1))
}
load.close()
await gateway.remove()
