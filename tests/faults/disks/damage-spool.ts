// R18: bits are flipped and tails cut in segments of a spool whose records exist nowhere else, since the broker was
// away: `bun tests/faults/disks/damage-spool.ts [--rounds 20]`.
// Everything that was not hit itself is salvaged as it was written. What was hit is counted and set aside, and its
// requests are reported as orphaned.
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readEnvelope } from '../../../src/log/envelope.ts'
import { kafkaLog } from '../../../src/log/kafka/log.ts'
import { nextFrame } from '../../../src/log/segments/frame.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { eventually } from '../../services/eventually.ts'
import { conclude, numberArgument } from '../control/figures.ts'
import { startOracle } from '../oracle.ts'
import { openBroker } from '../rig.ts'

const ROUNDS = numberArgument('rounds', 20)
const FLIPS = 3
const SETTLED = 'request.settled'
const ADMITTED = 'request.admitted'

interface Written {
  readonly path: string
  readonly start: number
  readonly end: number
  readonly type: string
  readonly id: string
  readonly told: string
}

/** What must not change on the way. */
const toldOf = (data: Record<string, unknown>): string =>
  JSON.stringify([data.outcome, data.prompt_tokens, data.completion_tokens, data.cost_nano_usd])

const framesOf = (path: string): Written[] => {
  const bytes = readFileSync(path)
  const found: Written[] = []
  for (
    let frame = nextFrame(bytes, -1, bytes.length);
    frame !== null;
    frame = nextFrame(bytes, frame.end - 1, bytes.length)
  ) {
    const { start, end, type } = frame
    if (type !== SETTLED && type !== ADMITTED) continue
    const data = JSON.parse(frame.data) as { id: string; request_id?: string }
    found.push({ path, start, end, type, id: data.request_id ?? data.id, told: toldOf(data) })
  }
  return found
}

const broker = await openBroker()
const gateway = broker.gateway()
await gateway.until('serving', 60_000)
await gateway.end() // writes the state from which it starts
gateway.start()
await gateway.until('serving', 60_000)
await broker.proxy.refuse()
const oracle = startOracle(() => gateway, 16, 'sandbox-echo')
await oracle.answered(3_000)
await oracle.stop()
await gateway.end('SIGKILL')
const data = join(gateway.folder, 'data')
const kept = join(gateway.folder, 'kept')
cpSync(data, kept, { recursive: true })
const segments = (readdirSync(kept, { recursive: true }) as string[]).filter((name) => name.endsWith('.segment'))
const written = segments.flatMap((name) => framesOf(join(kept, name)).map((frame) => ({ ...frame, path: name })))
const log = kafkaLog({ brokers: broker.direct, clientId: 'damage-reader' })

/** Answers the frames that it hit. */
const damage = (name: string, round: number): { readonly how: string; readonly hit: readonly Written[] } => {
  const path = join(data, name)
  const bytes = readFileSync(path)
  const own = written.filter((frame) => frame.path === name)
  if (round % 3 === 2) {
    const at = Math.floor(Math.random() * bytes.length)
    truncateSync(path, at)
    return { how: 'cut', hit: own.filter(({ end }) => end > at) }
  }
  const places = Array.from({ length: FLIPS }, () => Math.floor(Math.random() * bytes.length))
  for (const at of places) bytes[at] = bytes[at]! ^ (1 << Math.floor(Math.random() * 8))
  writeFileSync(path, bytes)
  return { how: 'flipped', hit: own.filter(({ start, end }) => places.some((at) => at >= start && at < end)) }
}

interface Sent {
  readonly envelopes: ReadonlySet<string>
  /** The reported outcomes of each request, of every settlement with a distinct id. */
  readonly settled: ReadonlyMap<string, readonly string[]>
}

/** What came into the topic from there on. */
const sentSince = async (from: readonly number[]): Promise<Sent> => {
  const envelopes = new Set<string>()
  const settled = new Map<string, string[]>()
  for (const partition of await log.partitions(TOPICS.requests.name)) {
    const end = await log.end(TOPICS.requests.name, partition)
    if (end <= from[partition]!) continue
    const done = new AbortController()
    for await (const batch of log.read(TOPICS.requests.name, partition, from[partition]!, done.signal)) {
      for (const { value } of batch) {
        const envelope = value === null ? null : readEnvelope(value)
        if (envelope === null || envelopes.has(envelope.id)) continue
        envelopes.add(envelope.id)
        if (envelope.type !== SETTLED) continue
        const data = envelope.data as { id: string; request_id?: string }
        const id = data.request_id ?? data.id
        settled.set(id, [...(settled.get(id) ?? []), toldOf(envelope.data as Record<string, unknown>)])
      }
      if (batch.at(-1)!.offset + 1 >= end) break
    }
    done.abort()
  }
  return { envelopes, settled }
}

const sums = {
  started: 0,
  hit: 0,
  untouched: 0,
  salvaged: 0,
  changed: 0,
  doubled: 0,
  gone: 0,
  toldOtherwise: 0,
  aside: 0,
}
const hows = new Map<string, number>()
for (let round = 0; round < ROUNDS; round++) {
  rmSync(data, { recursive: true, force: true })
  cpSync(kept, data, { recursive: true })
  const { how, hit } = damage(segments[round % segments.length]!, round)
  hows.set(how, (hows.get(how) ?? 0) + 1)
  const partitions = await log.partitions(TOPICS.requests.name)
  const from = await Promise.all(partitions.map((partition) => log.end(TOPICS.requests.name, partition)))
  await broker.proxy.accept()
  gateway.start()
  await gateway.until('serving', 60_000)
  sums.started++
  const wasHit = (type: string) => new Set(hit.filter((frame) => frame.type === type).map(({ id }) => id))
  const [lostSettlements, lostAdmissions] = [wasHit(SETTLED), wasHit(ADMITTED)]
  const whole = written.filter(({ type, id }) => type === SETTLED && !lostSettlements.has(id))
  // Those whose admission is there and whose settlement is not are settled at the start, as orphaned.
  const orphaned = [...lostSettlements].filter((id) => !lostAdmissions.has(id))
  let sent = await sentSince(from)
  await eventually(
    'all that can be is in the topic',
    async () => {
      sent = await sentSince(from)
      return whole.every(({ id }) => sent.settled.has(id)) && orphaned.every((id) => sent.settled.has(id))
    },
    { limitMs: 20_000, everyMs: 250 },
  ).catch(() => {}) // counted below
  sums.hit += hit.length
  sums.untouched += whole.length
  sums.salvaged += whole.filter(({ id }) => sent.settled.has(id)).length
  sums.changed += whole.filter(({ id, told }) => sent.settled.get(id)?.some((each) => each !== told)).length
  sums.doubled += [...sent.settled.values()].filter((each) => each.length > 1).length
  sums.gone += orphaned.length
  sums.toldOtherwise += orphaned.filter((id) => sent.settled.has(id)).length
  const aside = (readdirSync(data, { recursive: true }) as string[]).filter((name) => /damaged-.*\.bin$/.test(name))
  if (aside.length > 0) sums.aside++
  await gateway.end('SIGKILL')
  await broker.proxy.refuse()
}
await log.close()
const { started, hit, untouched, salvaged, changed, doubled, gone, toldOtherwise, aside } = sums
if (existsSync(kept)) rmSync(kept, { recursive: true })
await gateway.remove()
await broker.remove()
conclude([
  {
    row: 'R18',
    what:
      'a segment with records that nobody has yet damaged: ' +
      `${[...hows].map(([how, count]) => `${how} ${count}`).join(', ')} of ${segments.length} segment(s) with ` +
      `${written.length} records of requests`,
    figure:
      `started ${started} of ${ROUNDS}; records hit ${hit}; settlements salvaged ${salvaged} of ${untouched} ` +
      `that were not, told otherwise than written ${changed}, doubled ${doubled}; ` +
      'of those hit, whose admission is there, told as orphaned ' +
      `${toldOtherwise} of ${gone}; set aside in ${aside} rounds`,
    n: untouched,
    good:
      started === ROUNDS &&
      salvaged === untouched &&
      changed + doubled === 0 &&
      toldOtherwise === gone &&
      untouched > 0 &&
      hit > 0,
  },
])
