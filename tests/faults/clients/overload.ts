// R28: an open-loop load on loopback offers 1x, 3x and 10x of what the gateway can serve, beside 5,000 idle
// connections. Prints goodput, refusals, latencies and memory. The row holds when nothing fails and goodput stays flat.
// `bun tests/faults/clients/overload.ts [seconds of each step] [words of an answer] [off] [--connections 8000]
// [--factors 0.5,1,3,10]`
// `off`: without admission by load.
import { readFileSync } from 'node:fs'
import { INFERENCE_KEY, startGateway } from '../../services/gateway.ts'
import { conclude, type Figure, numberArgument } from '../control/figures.ts'
import { percentiles } from '../oracle.ts'
import { watchStrain } from '../watch.ts'
import { openLoad } from './open-load.ts'

const STEP_MS = Number(process.argv[2] ?? 15) * 1_000
const WORDS = Number(process.argv[3] ?? 200)
const IS_OFF = process.argv[4] === 'off'
/** More than pile up: a load whose connections are all taken waits, which is no overload. */
const CONNECTIONS = numberArgument('connections', 8_000)
/** The onset, counted by itself: the gate needs about two seconds to see a load. */
const SETTLE_MS = 5_000
const REST_PER_SECOND = 20
const factorsAt = process.argv.indexOf('--factors')
const FACTORS = (factorsAt < 0 ? '0.5,1,3,10' : process.argv[factorsAt + 1]!).split(',').map(Number)
const FEW = 16
const MORE_THAN_ANY = 20_000
/**
 * Each has sent one request and could send another; those that the gateway closed (75 s) are opened anew before each
 * step.
 */
const IDLE_CONNECTIONS = 5_000
const OPENED_AT_ONCE = 100
/**
 * The least share of the goodput at 1x that must be left at 10x. Refusing nine requests for each served one takes a
 * tenth of the core by itself (`bench -- refusal`).
 */
const FLAT_SHARE = 0.8

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
    // Set explicitly: by default, a gateway under `npm run faults` (a test's environment) refuses no request because of
    // load.
    server: { max_event_loop_delay: IS_OFF ? 'off' : '200ms' },
  },
})
await gateway.until('serving', 60_000)
const port = Number(new URL(gateway.url).port)

/** Processor time of the gateway so far, ms, in all of its threads. */
const processorMs = () => {
  const fields = readFileSync(`/proc/${gateway.pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

const idle = new Set<Bun.Socket>()
const connectIdle = async (): Promise<void> => {
  const answered = Promise.withResolvers<void>()
  await Bun.connect({
    hostname: '127.0.0.1',
    port,
    socket: {
      open(opened) {
        idle.add(opened)
        opened.write('GET /health HTTP/1.1\r\nHost: gateway.test\r\n\r\n')
      },
      data: () => answered.resolve(),
      close(closed) {
        idle.delete(closed)
        answered.resolve()
      },
    },
  })
  await answered.promise
}
const openIdle = async (): Promise<void> => {
  while (idle.size < IDLE_CONNECTIONS) await Promise.all(Array.from({ length: OPENED_AT_ONCE }, connectIdle))
}

const load = openLoad(port, request, CONNECTIONS)
/** The most that is served: a few connections that are never without a request. */
const capacity = async (): Promise<number> => {
  const few = openLoad(port, request, FEW)
  await few.run(MORE_THAN_ANY, 5_000) // warm
  const { served } = await few.run(MORE_THAN_ANY, 5_000)
  few.close()
  return served / 5
}

const top = await capacity()
console.log(`capacity ${top.toFixed(0)} streams of ${WORDS} words a second; admission by load ${IS_OFF ? 'off' : 'on'}`)
const figures: Figure[] = []
let goodputAtOne = 0
for (const factor of FACTORS) {
  await load.run(REST_PER_SECOND, 8_000) // back to rest
  await openIdle()
  const strain = watchStrain(gateway)
  const busyBefore = processorMs()
  const found = await load.run(factor * top, SETTLE_MS + STEP_MS, SETTLE_MS)
  const busyMs = processorMs() - busyBefore
  const { served, refused, failed, unsent, servedMs, refusedMs, onset } = found
  const { loopDelayMs, pulseMs, rssPeakMb } = await strain.stop()
  const latency = percentiles(servedMs)
  const goodput = (served * 1_000) / STEP_MS
  if (factor === 1) goodputAtOne = goodput
  const isFlat = goodput > 0 && (factor < 10 || goodput >= FLAT_SHARE * goodputAtOne)
  figures.push({
    row: 'R28',
    what:
      `${factor}x of capacity for ${STEP_MS / 1_000} s, answers of ${WORDS} words, over ` +
      `${CONNECTIONS.toLocaleString('en')} connections, beside ${idle.size} idle ones`,
    figure:
      `offered ${(factor * top).toFixed(0)}/s, goodput ${goodput.toFixed(0)}/s ` +
      `(${((goodput / top) * 100).toFixed(0)} % of capacity), ` +
      `refused ${refused}, failed ${failed}, not sent ${unsent}; served p50 ` +
      `${latency.p50.toFixed(0)}, p99 ${latency.p99.toFixed(0)} ms; ` +
      `refusals p99 ${percentiles(refusedMs).p99.toFixed(0)} ms; in the ${SETTLE_MS / 1_000} s ` +
      `before goodput ${((onset.served * 1_000) / SETTLE_MS).toFixed(0)}/s, ` +
      `served p99 ${percentiles(onset.servedMs).p99.toFixed(0)}, refusals p99 ` +
      `${percentiles(onset.refusedMs).p99.toFixed(0)} ms; ` +
      `event loop late by ${loopDelayMs.toFixed(0)} ms at most (p99 of 0.1 s), /health after ` +
      `${pulseMs.toFixed(0)} ms at most; RSS ${rssPeakMb.toFixed(0)} MB at most, ` +
      `${((busyMs * 1_000) / Math.max(1, served + onset.served)).toFixed(0)} us of processor for each served`,
    n: served + refused + failed + unsent,
    good: failed + onset.failed === 0 && isFlat,
  })
}
load.close()
for (const socket of idle) socket.end()
await gateway.remove()
conclude(figures)
