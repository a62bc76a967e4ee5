// Two processes of one data folder spend from one hard budget. When one of them dies, what it held is free again and
// what it spent is spent, while the living one keeps its own.
import { expect, test } from 'bun:test'
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { type Closing, closedAfterEach } from '../../services/closing.ts'
import { initTopics, kafkaSettings, NO_READ_MODELS } from '../../services/cluster.ts'
import { eventually } from '../../services/eventually.ts'
import { startGateway } from '../../services/gateway.ts'
import { childrenOf, isAlive } from '../started.ts'

/** Requests that the limit admits: each reserves and costs one thousandth of a dollar. */
const ADMITS = 40
/** A connection each: they are spread over the processes. */
const headers = { connection: 'close' }
const closing = closedAfterEach()

/** Answers with all the tokens that a client allows, once it is let; counts what came. */
const startUpstream = () => {
  let release = (): void => {}
  const upstream = { url: '', arrived: 0, held: null as Promise<void> | null, hold: () => {}, release: () => release() }
  upstream.hold = () => {
    upstream.held = new Promise((resolve) => {
      release = () => {
        upstream.held = null
        resolve()
      }
    })
  }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      if (request.method === 'GET') return Response.json({ data: [] })
      const { max_tokens: tokens } = (await request.json()) as { max_tokens: number }
      upstream.arrived += 1
      await upstream.held
      const usage = { prompt_tokens: 0, completion_tokens: tokens, total_tokens: tokens }
      const choices = [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }]
      return Response.json({ id: 'x', object: 'chat.completion', created: 1, model: 'm', choices, usage })
    },
  })
  closing.push(() => server.stop(true))
  closing.push(() => upstream.release())
  upstream.url = `http://127.0.0.1:${server.port}/v1`
  return upstream
}

/** Settings of the log. */
const LOGS = {
  embedded: () => Promise.resolve({}),
  kafka: async ({ push, folder }: Closing): Promise<Record<string, unknown>> => {
    const kafka = await startKafka({ brokers: 1 })
    push(() => kafka.stop())
    const settings = kafkaSettings(kafka.bootstrap)
    await initTopics(settings, folder())
    return settings
  },
}

const worldOf = async (log: keyof typeof LOGS) => {
  const upstream = startUpstream()
  const model = { input_cost_per_million: 0, output_cost_per_million: 10, max_output_tokens: 100 }
  const gateway = startGateway({
    settings: {
      ...NO_READ_MODELS,
      ...(await LOGS[log](closing)),
      server: { processes: 2 },
      diagnostics: { level: 'debug' },
      bootstrap: {
        providers: [{ name: 'up', kind: 'openai_compatible', base_url: upstream.url, timeout_ms: 240_000 }],
        models: [{ name: 'm', provider: 'up', ...model }],
      },
    },
  })
  closing.push(() => gateway.remove())
  const body = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] }
  /** 0: no answer. */
  const chat = async (): Promise<number> => {
    const answer = await gateway.request('/v1/chat/completions', { body, headers }).catch(() => null)
    await answer?.arrayBuffer().catch(() => null)
    return answer?.status ?? 0
  }
  /** Sends requests until one reaches the upstream: what a busy machine refuses for a moment is sent again. */
  const asked = async (): Promise<number> => {
    for (;;) {
      const status = await chat()
      if (status !== 429) return status
    }
  }
  let from = 0
  /** Lines of an event that were printed since the last start. */
  const told = (event: string): number => gateway.output().slice(from).split(`"event":"${event}"`).length - 1
  const start = async (): Promise<void> => {
    from = gateway.output().length
    gateway.start()
    await gateway.until('serving', LIMIT_MS)
    await eventually('both serve', () => told('serving') === 2, { limitMs: LIMIT_MS })
  }
  await gateway.until('serving', LIMIT_MS)
  await eventually('both serve', () => told('serving') === 2, { limitMs: LIMIT_MS })
  const limit_usd = ADMITS / 1_000
  const put = await gateway.request('/admin/v1/budgets', { method: 'PUT', body: { limit_usd, window: 'lifetime' } })
  const { id } = (await put.json()) as { id: string }
  const path = `/admin/v1/budgets/${id}`
  const read = async <Body>(of: string): Promise<Body> => (await gateway.request(of)).json() as Promise<Body>
  await eventually(
    'both know the budget',
    async () => {
      const answers = await Promise.all(Array.from({ length: 24 }, () => gateway.request(path, { headers })))
      return answers.every(({ ok }) => ok)
    },
    { limitMs: LIMIT_MS },
  )
  const spent = async () => Math.round((await read<{ spent_usd: number }>(path)).spent_usd * 1_000)
  const holding = async () => (await read<{ instances: { holds_usd: number }[] }>('/admin/v1/instances')).instances
  /**
   * Requests that the upstream has and does not answer yet: at least `atLeast`, and as many as it takes until each
   * process holds a part of the budget.
   */
  const underWay = async (atLeast: number): Promise<Promise<number>[]> => {
    const before = upstream.arrived
    upstream.hold()
    const open: Promise<number>[] = []
    do {
      open.push(asked())
      await eventually('under way', () => upstream.arrived === before + open.length, { limitMs: LIMIT_MS })
    } while (open.length < atLeast || (await holding()).filter(({ holds_usd }) => holds_usd > 0).length < 2)
    return open
  }
  const matches = async () => {
    const answer = await gateway.request(`${path}/verify`, { method: 'POST' })
    return ((await answer.json()) as { matches: boolean | null }).matches
  }
  return { upstream, gateway, chat, asked, underWay, start, told, spent, matches }
}

const LIMIT_MS = 60_000

const kill = (pid: number): void => {
  if (isAlive(pid)) process.kill(pid, 'SIGKILL')
}

test.each(Object.keys(LOGS) as (keyof typeof LOGS)[])(
  'two processes of one folder, one killed, both killed and started again, on the log %s: nothing is overspent, and all of the limit can be used',
  async (log) => {
    const { upstream, gateway, chat, asked, underWay, start, told, spent, matches } = await worldOf(log)
    expect(await Promise.all(Array.from({ length: 6 }, asked))).toEqual(Array(6).fill(200))

    // One dies with requests under way; the other goes on with its own.
    let open = await underWay(6)
    const [sibling] = childrenOf(gateway.pid)
    kill(sibling!)
    await eventually('another one serves', () => told('serving') === 3, { limitMs: LIMIT_MS })
    upstream.release()
    expect((await Promise.all(open)).filter((status) => status !== 200 && status !== 0)).toEqual([])
    const isBooked = async () => (await spent()) === upstream.arrived
    await eventually('all that came is spent', isBooked, { limitMs: LIMIT_MS })

    // Both die with requests under way.
    open = await underWay(4)
    const [next] = childrenOf(gateway.pid)
    process.kill(gateway.pid, 'SIGKILL')
    kill(next!)
    await gateway.exited
    upstream.release()
    await Promise.all(open)
    await eventually('it is gone', () => !isAlive(next!), { limitMs: LIMIT_MS })
    await start()
    await eventually('what both left open is spent', isBooked, { limitMs: LIMIT_MS })

    // The processes end in order. After the restart they look for late leases of the dead ones, while others have those
    // names and requests in flight.
    await gateway.end('SIGTERM')
    await start()
    open = await underWay(8)
    const looks = () => told('late_leases_closed') - told('spool_adopted')
    await eventually('each has looked for what came late', () => looks() >= 2, { limitMs: LIMIT_MS })
    upstream.held = null // of those that come from now on
    const refused = async () => (await chat()) === 402
    await eventually('the rest is spent', refused, { limitMs: LIMIT_MS })
    upstream.release()
    expect(await Promise.all(open)).toEqual(open.map(() => 200))
    const isSpent = async () => (await refused()) && upstream.arrived >= ADMITS
    await eventually('all of it is spent', isSpent, { limitMs: LIMIT_MS })
    await eventually('and booked', isBooked, { limitMs: LIMIT_MS })
    expect(await Promise.all(Array.from({ length: 12 }, asked))).toEqual(Array(12).fill(402))
    expect([upstream.arrived, told('budget_holder_retired')]).toEqual([ADMITS, 0])
    await eventually('as the log says', async () => (await matches()) === true, { limitMs: LIMIT_MS })
  },
  280_000,
)
