// R8, R9, R10: faults of the connections between a gateway and its broker, and a broker that is frozen. Inference must
// not be affected, and every outcome is in the topic once.
// `bun tests/faults/brokers/broker-network.ts [--seconds 60] [part of a name]`.

import { conclude, type Figure, numberArgument } from '../control/figures.ts'
import { percentiles, startOracle } from '../oracle.ts'
import { failedOf, failuresText, openBroker, waitsBetween } from '../rig.ts'
import { settledInKafka } from '../settled.ts'
import { strainText, watchStrain } from '../watch.ts'

const SECONDS = numberArgument('seconds', 60)
const ONLY = process.argv.slice(2).find((word) => /^[a-z]+\d*$/.test(word)) ?? ''
const CLIENTS = 6
const ADMIN_LIMIT_MS = 6_000
/** Between requests of one client, so that what is compared is the fault and not a machine without a rest. */
const EVERY_MS = 20
/** The gateway's thread never stands still for the broker: what a busy machine adds. */
const MOST_STILL_MS = 1_000
const MOST_ADDED_MS = 50
const WELL_MS = 5_000

const broker = await openBroker()
const { proxy, kafka } = broker
const leader = kafka.broker(0)

interface Fault {
  readonly row: string
  readonly name: string
  begin(): void | Promise<void>
  end(): void | Promise<void>
  /** Again and again while it lasts. */
  readonly again?: () => unknown
}

const FAULTS: readonly Fault[] = [
  {
    row: 'R8',
    name: 'stopped (SIGSTOP): connections are taken, nothing is answered',
    begin: () => leader.pause(),
    end: () => leader.resume(),
  },
  {
    row: 'R8',
    name: 'swallowed: everything on the way is lost, no connection ends',
    begin: () => void Object.assign(proxy, { blackhole: true }),
    end() {
      proxy.blackhole = false
      proxy.cut()
    },
  },
  { row: 'R8', name: 'refused: nobody listens', begin: () => proxy.refuse(), end: () => proxy.accept() },
  {
    row: 'R9',
    name: 'slow: 500 ms each way, one piece in a hundred resets its connection',
    begin: () => void Object.assign(proxy, { delayMs: 500, resetShare: 0.01 }),
    end: () => void Object.assign(proxy, { delayMs: 0, resetShare: 0 }),
  },
  {
    row: 'R9',
    name: 'throttled to 20 KB a second',
    begin: () => void Object.assign(proxy, { bytesPerSecond: 20_000 }),
    end: () => void Object.assign(proxy, { bytesPerSecond: Number.POSITIVE_INFINITY }),
  },
  {
    row: 'R9',
    name: 'reset in the midst of batches, five times a second',
    begin() {},
    end() {},
    again: () => proxy.reset(),
  },
  { row: 'R9', name: 'half closed, five times a second', begin() {}, end() {}, again: () => proxy.halfClose() },
  {
    row: 'R10',
    name: 'drops the answers to what was appended, five times a second',
    begin() {},
    end() {},
    // For a moment only: a gateway that connects anew needs answers before it appends again.
    async again() {
      proxy.dropAnswers = true
      await Bun.sleep(20 + Math.random() * 60)
      proxy.dropAnswers = false
      proxy.cut()
    },
  },
]

const gateway = broker.gateway()
await gateway.until('serving', 60_000)
const warming = startOracle(() => gateway, CLIENTS, 'sandbox-echo', EVERY_MS)
await Bun.sleep(WELL_MS)
await warming.stop()

/** Decisions are refused in time, never accepted silently. */
const writeOnce = async (slug: string): Promise<number> => {
  const startedMs = performance.now()
  const answer = await gateway.request('/admin/v1/tenants', { body: { slug, name: 'written under faults' } })
  await answer.text()
  return performance.now() - startedMs
}

/** So many stood in the topic before this fault. */
let repeatsBefore = 0

const runFault = async ({ row, name, begin, end, again }: Fault): Promise<Figure> => {
  const oracle = startOracle(() => gateway, CLIENTS, 'sandbox-echo', EVERY_MS)
  const begunMs = performance.now()
  await Bun.sleep(WELL_MS)
  const before = oracle.sent.size
  const strain = watchStrain(gateway)
  const faultMs = performance.now()
  const writes: number[] = []
  await begin()
  const untilMs = performance.now() + SECONDS * 1_000
  const writing = (async () => {
    for (let number = 0; performance.now() < untilMs; number++) {
      writes.push(await writeOnce(`fault-${row.toLowerCase()}-${Math.random().toString(36).slice(2, 8)}-${number}`))
      await Bun.sleep(250)
    }
  })()
  while (performance.now() < untilMs) {
    await again?.()
    await Bun.sleep(200)
  }
  await writing
  await end()
  const during = oracle.sent.size - before
  const healedMs = performance.now()
  const seen = await strain.stop()
  await oracle.answered(200)
  await oracle.stop()
  const { lost, doubled, outcomes, repeats: allRepeats, otherTokens } = await settledInKafka(broker.direct, oracle)
  const repeats = allRepeats - repeatsBefore
  repeatsBefore = allRepeats
  const caughtUpS = (performance.now() - healedMs) / 1_000
  const failed = failedOf(oracle)
  const admin = percentiles(writes)
  const [well, ill] = [waitsBetween(oracle, begunMs, faultMs), waitsBetween(oracle, faultMs, healedMs)]
  const addedMs = ill.p99 - well.p99
  return {
    row,
    what: `broker ${name}, ${SECONDS} s`,
    figure:
      `inference failed ${failed} of ${oracle.sent.size} (${during} sent meanwhile; ${failuresText(oracle)}), ` +
      `first byte p99 ${well.p99.toFixed(1)} ms before, ${ill.p99.toFixed(1)} meanwhile, delta ` +
      `${addedMs.toFixed(1)}; ` +
      `lost ${lost} of ${oracle.complete.size}, doubled ${doubled} of ${outcomes}, other ` +
      `tokens ${otherTokens}, repeats dropped by id ${repeats}; ` +
      `admin writes at most ${admin.max.toFixed(0)} ms of ${writes.length}; spool at most ` +
      `${seen.spoolPeakMb.toFixed(1)} MB; ${strainText(seen)}; caught up ${caughtUpS.toFixed(1)} s after`,
    n: oracle.complete.size,
    good:
      failed + lost + doubled + otherTokens === 0 &&
      oracle.complete.size > 0 &&
      admin.max < ADMIN_LIMIT_MS &&
      seen.pulseMs < MOST_STILL_MS &&
      addedMs < MOST_ADDED_MS &&
      (row !== 'R10' || repeats > 0),
  }
}

const figures: Figure[] = []
for (const fault of FAULTS) {
  if (!`${fault.row.toLowerCase()} ${fault.name}`.includes(ONLY)) continue
  const figure = await runFault(fault)
  console.error(`${figure.what}: ${figure.figure}`)
  figures.push(figure)
}
await gateway.remove()
await broker.remove()
conclude(figures)
