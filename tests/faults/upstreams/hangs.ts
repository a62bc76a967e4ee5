// R23: an upstream hangs at every stage, with one short deadline and all others far away. Prints how long after its
// deadline a client gets the error or the other provider's answer, and how many of the hung connections are left.
// `bun tests/faults/upstreams/hangs.ts [times]`
import { eventually } from '../../services/eventually.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'
import { startUpstream } from '../../services/upstream.ts'
import { conclude, type Figure } from '../control/figures.ts'
import { type FaultAnswer, startFaultServer } from '../matrix/fault-server.ts'
import { ANSWER, FINISH, JSON_TYPE, open, ROLE, WORD } from '../matrix/row.ts'
import { percentiles } from '../oracle.ts'
import { UNDISTURBED } from '../rig.ts'
import { ownDescriptors, socketsTo } from '../watch.ts'
import { startFullListener } from './full-listener.ts'

const TIMES = Number(process.argv[2] ?? 40)
const AT_ONCE = 4
const LIMIT_MS = 600
/** A deadline is looked at every 20 ms; the rest is for a machine that does other things too. */
const MOST_LATE_MS = 500
const MOST_EARLY_MS = 5
const FAR_MS = 60_000
/** A connection that may be used again is kept for 4 s. */
const POOLED_MS = 6_000
const LET_GO_MS = 1_000
/** So long the kernel tries to open a connection (`tcp_syn_retries` 6), and a little more. */
const KERNEL_MS = 140_000

type Ending = 'fails' | 'breaks' | 'ends well'
type Deadline = 'connect_ms' | 'first_token_ms' | 'stream_idle_ms' | 'total_ms' | 'timeout_ms'

interface Stage {
  readonly name: string
  readonly scheme?: 'https'
  /** Null: the listener whose queue is full. */
  readonly answer: FaultAnswer | null
  /** The deadline that is near, and what becomes of the request; null: the stage is none of that wire. */
  readonly json: readonly [Deadline, Ending] | null
  readonly stream: readonly [Deadline, Ending] | null
}

const nothing: FaultAnswer = () => {}
const halfJson: FaultAnswer = ({ connection }) =>
  connection.write(`HTTP/1.1 200 OK\r\n${JSON_TYPE}Content-Length: ${ANSWER.length}\r\n\r\n${ANSWER.slice(0, 50)}`)

const STAGES: readonly Stage[] = [
  { name: 'connecting', answer: null, json: ['connect_ms', 'fails'], stream: ['connect_ms', 'fails'] },
  {
    name: 'in the TLS handshake',
    scheme: 'https',
    answer: nothing,
    json: ['connect_ms', 'fails'],
    stream: ['connect_ms', 'fails'],
  },
  {
    name: 'before its head',
    answer: nothing,
    json: ['timeout_ms', 'fails'],
    stream: ['first_token_ms', 'fails'],
  },
  {
    name: 'within its head',
    answer: ({ connection }) => connection.write('HTTP/1.1 200 OK\r\nContent-'),
    json: ['timeout_ms', 'fails'],
    stream: ['first_token_ms', 'fails'],
  },
  {
    name: 'before the first word',
    answer: (request) => open(request, ROLE),
    json: null,
    stream: ['first_token_ms', 'fails'],
  },
  {
    name: 'in the midst of its answer',
    answer: (request) => (request.stream ? open(request, ROLE, WORD) : halfJson(request)),
    json: ['timeout_ms', 'fails'],
    stream: ['stream_idle_ms', 'breaks'],
  },
  {
    name: 'after its last piece',
    answer: (request) => open(request, ROLE, WORD, FINISH),
    json: null,
    stream: ['stream_idle_ms', 'ends well'],
  },
]
const DEADLINES = [...new Set(STAGES.flatMap(({ json, stream }) => [json?.[0], stream?.[0]]))].filter(
  (deadline) => deadline !== undefined,
)

const full = await startFullListener()
const good = startUpstream({ behaviour: { text: 'from the other one', chunks: 1 } })
const servers = STAGES.map(({ answer }) => (answer === null ? null : startFaultServer(answer, {})))
const ports = STAGES.map((_, i) => servers[i]?.port ?? full.port)
/** So few calls do not affect a provider's health: each model gets no more, so none is left out. */
const BLOCK = 10
const modelOf = (stage: number, wire: 'json' | 'stream', fallback: boolean, time: number) =>
  `hung-${stage}-${wire}-${fallback ? 'over' : 'told'}-${Math.floor(time / BLOCK)}`
const modelsOf = (stage: number, deadline: Deadline): string[] =>
  (['json', 'stream'] as const)
    .filter((wire) => STAGES[stage]![wire]?.[0] === deadline)
    .flatMap((wire) => [false, true].map((fallback) => ({ wire, fallback })))
    .flatMap(({ wire, fallback }) =>
      Array.from({ length: Math.ceil(TIMES / BLOCK) }, (_, block) => modelOf(stage, wire, fallback, block * BLOCK)),
    )

const gateway: GatewayProcess = startGateway({
  settings: {
    ...UNDISTURBED,
    bootstrap: {
      providers: [
        ...STAGES.flatMap(({ scheme, json, stream }, i) =>
          [...new Set([json?.[0], stream?.[0]])]
            .filter((deadline) => deadline !== undefined)
            .map((deadline) => ({
              name: `hung-${i}-${deadline}`.replaceAll('_', '-'),
              kind: 'openai_compatible',
              base_url: `${scheme ?? 'http'}://127.0.0.1:${ports[i]}/v1`,
              timeout_ms: deadline === 'timeout_ms' ? LIMIT_MS : FAR_MS,
              models: modelsOf(i, deadline).map((name) => ({ name, priority: 1 })),
            })),
        ),
        {
          name: 'good',
          kind: 'openai_compatible',
          base_url: good.baseUrl,
          models: STAGES.flatMap((_, i) =>
            DEADLINES.flatMap((deadline) => modelsOf(i, deadline).map((name) => ({ name, priority: 2 }))),
          ),
        },
      ],
      policies: DEADLINES.map((near) => ({
        name: near.replaceAll('_', '-'),
        strategy: 'priority',
        retry: { attempts: 0 },
        breaker: { failure_threshold: 10_000, failure_rate_pct: 100, minimum_requests: 100_000 },
        timeouts: Object.fromEntries(
          (['connect_ms', 'first_token_ms', 'stream_idle_ms', 'total_ms'] as const).map((name) => [
            name,
            name === near ? LIMIT_MS : FAR_MS,
          ]),
        ),
      })),
    },
  },
})
await gateway.until('serving', 60_000)
await eventually('the registry is seeded', async () => {
  const text = await (await gateway.request('/v1/models')).text()
  return text.includes(modelOf(STAGES.length - 1, 'stream', true, TIMES - 1))
})

interface Seen {
  readonly right: boolean
  readonly what: string
  /** From its deadline: positive when it was late. */
  readonly lateMs: number
}

const askOnce = async (
  stage: number,
  [deadline, ending]: readonly [Deadline, Ending],
  wire: 'json' | 'stream',
  fallback: boolean,
  time: number,
): Promise<Seen> => {
  const sentMs = performance.now()
  let countedFromMs = sentMs
  const response = await gateway.request('/v1/chat/completions', {
    body: {
      model: modelOf(stage, wire, fallback, time),
      messages: [{ role: 'user', content: 'Are you there?' }],
      stream: wire === 'stream',
    },
    headers: {
      'X-Gateway-Policy': deadline.replaceAll('_', '-'),
      ...(fallback ? {} : { 'X-Gateway-No-Fallback': 'true' }),
    },
    signal: AbortSignal.timeout(30_000),
  })
  let text = ''
  const decoder = new TextDecoder()
  for await (const piece of response.body!) {
    // The idle deadline counts from the last piece.
    if (ending !== 'fails') countedFromMs = text.includes('Gr') ? countedFromMs : performance.now()
    text += decoder.decode(piece, { stream: true })
  }
  const tookMs = performance.now() - countedFromMs
  const right = {
    fails: fallback
      ? response.status === 200 && text.includes('other one')
      : response.status === 504 && text.includes('"code":"timeout"'),
    breaks: response.status === 200 && text.includes('event: error') && text.includes('"code":"timeout"'),
    'ends well': response.status === 200 && text.endsWith('data: [DONE]\n\n') && !text.includes('event: error'),
  }[ending]
  return { right, what: `${response.status} ${text.slice(-300)}`, lateMs: tookMs - LIMIT_MS }
}

const runStage = async (stage: number, wire: 'json' | 'stream', fallback: boolean): Promise<Figure | null> => {
  const near = STAGES[stage]![wire]
  if (near === null) return null
  const seen: Seen[] = []
  let next = 0
  let mostOpen = 0
  const to = new Set([ports[stage]!])
  const lanes = Array.from({ length: AT_ONCE }, async () => {
    for (let time = next++; time < TIMES; time = next++) {
      const asked = askOnce(stage, near, wire, fallback, time)
      await Bun.sleep(LIMIT_MS / 2)
      mostOpen = Math.max(mostOpen, socketsTo(gateway.pid, to))
      seen.push(await asked)
    }
  })
  await Promise.all(lanes)
  const left = () => socketsTo(gateway.pid, to)
  await eventually('they are let go', () => left() === 0, { limitMs: LET_GO_MS }).catch(() => {})
  const held = left()
  const isKernels = STAGES[stage]!.answer === null
  const wrong = seen.filter(({ right }) => !right)
  for (const { what } of wrong.slice(0, 2)) console.error(`WRONG: ${STAGES[stage]!.name}, ${wire}: ${what}`)
  const lates = seen.map(({ lateMs }) => lateMs)
  const { p50, max } = percentiles(lates)
  const least = Math.min(...lates)
  // What ends well has nothing to wait for: it may end before.
  const early = near[1] === 'ends well' ? 0 : lates.filter((ms) => ms < -MOST_EARLY_MS).length
  return {
    row: 'R23',
    what:
      `an upstream hangs ${STAGES[stage]!.name}, ${wire === 'json' ? 'JSON' : 'stream'}, ` +
      `${fallback ? 'another provider takes over' : 'told to the client'}, \`${near[0]}\` ${LIMIT_MS}`,
    figure:
      `right ${seen.length - wrong.length} of ${seen.length}; beyond the deadline ms least ` +
      `${least.toFixed(0)}, p50 ${p50.toFixed(0)}, max ${max.toFixed(0)}, early ${early}; sockets to it at ` +
      `most ${mostOpen}, ${isKernels ? `still opening afterwards ${held}` : `leaked ${held}`}`,
    n: seen.length,
    good: wrong.length === 0 && early === 0 && max <= MOST_LATE_MS && (isKernels || held === 0) && mostOpen > 0,
  }
}

/** Everything loaded and used once, and what may be used again let go. */
const atRest = async (): Promise<number> => {
  await Bun.sleep(POOLED_MS)
  return ownDescriptors(gateway)
}

const figures: Figure[] = []
for (const wire of ['json', 'stream'] as const) await askOnce(2, STAGES[2]![wire]!, wire, true, 0)
const before = await atRest()
for (const [stage, { json, stream }] of STAGES.entries()) {
  for (const wire of ['json', 'stream'] as const) {
    // A stream that has begun is never begun anew with another provider.
    const modes = { json, stream }[wire]?.[1] === 'fails' ? [false, true] : [false]
    for (const fallback of modes) {
      const figure = await runStage(stage, wire, fallback)
      if (figure !== null) figures.push(figure)
      if (figure !== null) console.error(`${figure.what}: ${figure.figure}`)
    }
  }
}
// A connection that the kernel is still opening has no handle that could close it: it ends when the kernel gives up or
// a peer answers.
await full.stop()
const stoppedMs = performance.now()
const hung = () => socketsTo(gateway.pid, new Set(ports))
await eventually('all are let go', () => hung() === 0, { limitMs: KERNEL_MS, everyMs: 100 }).catch(() => {})
const letGoS = (performance.now() - stoppedMs) / 1_000
const after = await atRest()
figures.push({
  row: 'R23',
  what:
    'sockets to upstreams that hung, after the one that takes no connection is gone; descriptors of the gateway ' +
    'without those of its clients, 6 s without a request, before all of them and after',
  figure: `sockets left ${hung()}, after ${letGoS.toFixed(1)} s; descriptors ${before} and ${after}`,
  n: figures.reduce((sum, { n }) => sum + n, 0),
  good: after <= before && hung() === 0,
})
await gateway.remove()
for (const server of servers) server?.stop()
await good.stop()
conclude(figures)
