// B3: every path on which a request can end, a thousand times each, each under a separate hard budget. Nothing stays
// reserved, the spent amount is that of the outcomes, and it is no less than what the upstream has billed. The requests
// go to all instances in turn.
// `bun tests/faults/budgets/exits.ts [--times 1000] [--instances 1]`
import type { GatewayProcess } from '../../services/gateway.ts'
import { type Figure, numberArgument } from '../control/figures.ts'
import { type ExitsUpstream, PROMPT_NANO_USD, startExitsUpstream } from './exits-upstream.ts'
import { COST_NANO_USD, type Rig, runRows, type Standing, TOKENS, tally, usdText } from './rig.ts'

/** Sends one request of this path and acts as its client. Returns what the client saw. */
type Ask = (gateway: GatewayProcess, upstream: ExitsUpstream, prompt: string) => Promise<number>

interface Path {
  readonly model: string
  readonly what: string
  readonly ask: Ask
  /** Whether the upstream reports what it bills: exactly that is spent. Otherwise no less than that. */
  readonly isSaid: boolean
}

const body = (model: string, prompt: string, more: object = {}) => ({
  ...{ model, max_tokens: TOKENS, messages: [{ role: 'user', content: prompt }] },
  ...more,
})

const asking =
  (model: string, more: object = {}): Ask =>
  async (gateway, _, prompt) => {
    const answer = await gateway.request('/v1/chat/completions', { body: body(model, prompt, more) })
    const text = await answer.text()
    // An error frame after the first byte counts as what it is.
    return text.includes('event: error') ? 599 : answer.status
  }

/** Leaves once the upstream has the request, or once the first bytes have come. */
const leaving =
  (model: string, late: boolean): Ask =>
  async (gateway, upstream, prompt) => {
    const left = new AbortController()
    const arrived = upstream.arrived(prompt)
    const init = { body: body(model, prompt, { stream: late }), signal: left.signal }
    const answer = gateway.request('/v1/chat/completions', init)
    answer.catch(() => undefined)
    await arrived
    if (late) await (await answer).body!.getReader().read()
    left.abort()
    return 499
  }

const PATHS: readonly Path[] = [
  { model: 'json-ok', what: 'success, JSON', ask: asking('json-ok'), isSaid: true },
  { model: 'stream-ok', what: 'success, stream', ask: asking('stream-ok', { stream: true }), isSaid: true },
  { model: 'upstream-400', what: 'upstream 400', ask: asking('upstream-400'), isSaid: true },
  { model: 'upstream-500', what: 'upstream 500', ask: asking('upstream-500'), isSaid: true },
  { model: 'failover', what: 'failover', ask: asking('failover'), isSaid: true },
  {
    ...{ model: 'not-conforming', what: 'answer refused after it came', isSaid: true },
    ask: asking('not-conforming', {
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'a', strict: true, schema: { type: 'object', required: ['a'] } },
      },
    }),
  },
  { model: 'stream-breaks', what: 'stream breaks', ask: asking('stream-breaks', { stream: true }), isSaid: false },
  {
    model: 'stream-silent',
    what: 'stream falls silent',
    ask: asking('stream-silent', { stream: true }),
    isSaid: false,
  },
  { model: 'hangs', what: 'upstream hangs', ask: asking('hangs'), isSaid: false },
  {
    model: 'hangs-stream',
    what: 'upstream hangs, stream',
    ask: asking('hangs-stream', { stream: true }),
    isSaid: false,
  },
  {
    model: 'left-early',
    what: 'client leaves before the first byte',
    ask: leaving('left-early', false),
    isSaid: false,
  },
  { model: 'left-late', what: 'client leaves after it', ask: leaving('left-late', true), isSaid: false },
  {
    ...{ model: 'left-asking', what: 'client leaves while its stream asks for more', isSaid: false },
    ask: leaving('left-asking', true),
  },
]

const AT_ONCE = 100
/** A lease that no request draws from goes back after half a minute; a leaked reservation never does. */
const IDLE_MS = 75_000
const ROOM_USD = 1_000

const budgetOf = (rig: Rig, model: string, limitUsd = ROOM_USD): Promise<string> =>
  rig.budget(limitUsd, { scope: { type: 'model', id: model } })

const STREAM = { stream: true }
const promptOf = (model: string, n: number): string => `${model} ${n}`

/** What a stream reserves: every byte of its body as a token of the prompt, and all that it may answer. */
const reservedFor = (model: string, prompt: string): number =>
  Buffer.byteLength(JSON.stringify(body(model, prompt, STREAM))) * PROMPT_NANO_USD + COST_NANO_USD

/** `times` requests of a path, so many at once. */
const walk = async (
  gateways: readonly GatewayProcess[],
  upstream: ExitsUpstream,
  { model, ask }: Path,
  times: number,
): Promise<number[]> => {
  const statuses: number[] = []
  for (let from = 0; from < times; from += AT_ONCE) {
    const some = Array.from({ length: Math.min(AT_ONCE, times - from) }, (_, i) =>
      ask(gateways[i % gateways.length]!, upstream, promptOf(model, from + i)).catch(() => 0),
    )
    statuses.push(...(await Promise.all(some)))
  }
  return statuses
}

/**
 * Streams that cost more than the budget has left. All of them hold their reservation before the first one extends it,
 * so all run on one instance, another one each time.
 */
const cutStreams = async (rig: Rig, upstream: ExitsUpstream, times: number): Promise<{ id: string; all: number[] }> => {
  const path: Path = { model: 'stream-cut', what: '', ask: asking('stream-cut', STREAM), isSaid: false }
  const all: number[] = []
  let id = ''
  let limitNanoUsd = 0
  for (let done = 0; done < times; done += AT_ONCE) {
    for (let n = 0; n < AT_ONCE; n++) limitNanoUsd += reservedFor(path.model, promptOf(path.model, n))
    id = await budgetOf(rig, path.model, limitNanoUsd / 1e9)
    const gateway = rig.gateways[(done / AT_ONCE) % rig.gateways.length]!
    all.push(...(await walk([gateway], upstream, path, AT_ONCE)))
  }
  return { id, all }
}

/** Requests that are under way when their gateway is stopped, beyond the time that it waits for them. */
const stopped = async (rig: Rig, upstream: ExitsUpstream, times: number): Promise<number[]> => {
  const all: number[] = []
  for (let done = 0; done < times; done += AT_ONCE) {
    const gateway = rig.gateways[(done / AT_ONCE) % rig.gateways.length]!
    const arrived: Promise<void>[] = []
    const asked = Array.from({ length: AT_ONCE }, (_, i) => {
      const prompt = `shutdown ${done + i}`
      arrived.push(upstream.arrived(prompt))
      return asking('shutdown')(gateway, upstream, prompt).catch(() => 0)
    })
    await Promise.all(arrived)
    await gateway.end('SIGTERM')
    all.push(...(await Promise.all(asked)))
    gateway.start()
    await gateway.until('serving', 60_000)
  }
  return all
}

const untilIdle = async (rig: Rig, ids: readonly string[]): Promise<Map<string, Standing>> => {
  const standings = new Map<string, Standing>()
  for (const untilMs = performance.now() + IDLE_MS; ; await Bun.sleep(1_000)) {
    for (const id of ids) standings.set(id, await rig.standing(id))
    const isIdle = [...standings.values()].every(({ reserved_usd }) => reserved_usd === 0)
    if (isIdle || performance.now() > untilMs) return standings
  }
}

const exits = async (rig: Rig, upstream: ExitsUpstream, times: number): Promise<Figure[]> => {
  const walked: { what: string; model: string; id: string; statuses: number[]; isSaid: boolean }[] = []
  for (const path of PATHS) {
    const id = await budgetOf(rig, path.model)
    walked.push({ ...path, id, statuses: await walk(rig.gateways, upstream, path, times) })
    console.error(path.what, tally(walked.at(-1)!.statuses))
  }
  const refused = await budgetOf(rig, 'json-refused', 0)
  const none: Path = { model: 'json-refused', what: 'budget refused', ask: asking('json-refused'), isSaid: true }
  walked.push({ ...none, id: refused, statuses: await walk(rig.gateways, upstream, none, times) })
  const { id, all } = await cutStreams(rig, upstream, times)
  walked.push({ what: 'stream cut by its budget', model: 'stream-cut', id, statuses: all, isSaid: false })
  const last = await budgetOf(rig, 'shutdown')
  const ended = await stopped(rig, upstream, times)
  walked.push({ what: 'instance stopped', model: 'shutdown', id: last, statuses: ended, isSaid: false })
  const standings = await untilIdle(
    rig,
    walked.map((each) => each.id),
  )
  const figures: Figure[] = []
  for (const { what, model, id, statuses, isSaid } of walked) {
    const { reserved_usd, spent_usd, overrun_usd } = standings.get(id)!
    const { matches, difference_usd, outcomes } = await rig.verify(id)
    const leaked = (reserved_usd * 1e9) / COST_NANO_USD
    const billedUsd = upstream.billedFor(model) / 1e9
    const overspentUsd = billedUsd - spent_usd
    const isExact = !isSaid || Math.abs(overspentUsd) < 1e-9
    figures.push({
      row: 'B3',
      what: `${what} (${tally(statuses)})`,
      figure:
        `leaked ${leaked} of ${statuses.length}, spent ${usdText(spent_usd)} by ${outcomes} ` +
        `outcomes, billed ${usdText(billedUsd)}, overspent ${usdText(overspentUsd)}, log and ` +
        `account differ by ${usdText(Math.abs(difference_usd))}`,
      n: statuses.length,
      good: [reserved_usd === 0, matches, isExact, overspentUsd < 1e-9, overrun_usd === 0, !statuses.includes(0)].every(
        Boolean,
      ),
    })
  }
  return figures
}

const upstream = startExitsUpstream()
const priced = {
  input_cost_per_million: PROMPT_NANO_USD / 1_000,
  output_cost_per_million: COST_NANO_USD / TOKENS / 1_000,
}
/** A provider for each path, so that none is shut out by what another does. */
const provider = (name: string, path = '/v1', more: object = {}) => ({
  ...{ name, kind: 'openai_compatible', base_url: `http://127.0.0.1:${upstream.port}${path}` },
  ...more,
})
const names = [...PATHS.map(({ model }) => model), 'json-refused', 'stream-cut', 'shutdown']
const model = (name: string, owner = name, priority = 1) => ({
  ...{ name, provider: owner, priority, max_output_tokens: TOKENS, ...priced },
  ...{ capabilities: ['chat', 'streaming', 'json_mode', 'json_schema'] },
})
const bootstrap = {
  providers: [
    ...names.map((name) => provider(name, '/v1', name === 'hangs' ? { timeout_ms: 2_000 } : {})),
    provider('second', '/second/v1'),
  ],
  models: [...names.map((name) => model(name)), model('failover', 'second', 2)],
  policies: [
    {
      ...{ name: 'default', strategy: 'priority', retry: { attempts: 0 } },
      timeouts: { first_token_ms: 3_000, stream_idle_ms: 3_000, total_ms: 60_000 },
      breaker: { failure_threshold: 10_000, minimum_requests: 100_000 },
    },
  ],
}
const settings = { server: { drain: '1s' } }
await runRows((rig) => exits(rig, upstream, numberArgument('times', 1_000)), { instances: 1, bootstrap, settings })
