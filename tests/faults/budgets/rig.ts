// Real gateways on one real broker, and an upstream whose bill is the truth: what it answered, it charges for.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startKafka } from '../../../infra/kafka/kafka.ts'
import { initTopics, kafkaSettings } from '../../services/cluster.ts'
import { eventually } from '../../services/eventually.ts'
import { freePort, type GatewayProcess, startGateway } from '../../services/gateway.ts'
import { startTcpProxy, type TcpProxy } from '../../services/tcp-proxy.ts'
import { conclude, type Figure, numberArgument } from '../control/figures.ts'

/** Prompts are free and every answer has all the tokens that the client allows, so a request costs what it reserves. */
export const TOKENS = 100
export const COST_NANO_USD = 1_000_000
const USD_PER_MILLION = COST_NANO_USD / TOKENS / 1_000

/** So long the last outcomes may take until they stand in the log. */
const SHIPPED_MS = 60_000

export interface Upstream {
  readonly url: string
  /** Calls that were answered, so that they are on the bill. */
  billed: number
  /** The `user` of each of them that names one, with what it is billed. */
  readonly billedFor: Map<string, number>
  /** The share of the client's allowed completion tokens that is used; 1 by default. */
  share: number
  delayMs: number
  stop(): void
}

export const startUpstream = (): Upstream => {
  const billedFor = new Map<string, number>()
  const upstream = { url: '', billed: 0, billedFor, share: 1, delayMs: 20, stop: (): void => {} }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const body = (await request.json().catch(() => null)) as { max_tokens?: number; user?: string } | null
      if (body === null) return Response.json({ data: [] })
      await Bun.sleep(upstream.delayMs)
      const completion_tokens = Math.ceil((body.max_tokens ?? TOKENS) * upstream.share)
      const share = completion_tokens / TOKENS
      upstream.billed += share
      if (body.user !== undefined)
        billedFor.set(body.user, (billedFor.get(body.user) ?? 0) + Math.round(share * COST_NANO_USD))
      const usage = { prompt_tokens: 1, completion_tokens, total_tokens: completion_tokens + 1 }
      const message = { role: 'assistant', content: 'hi' }
      const choices = [{ index: 0, message, finish_reason: 'stop' }]
      return Response.json({ id: 'x', object: 'chat.completion', created: 1, model: 'm', choices, usage })
    },
  })
  upstream.url = `http://127.0.0.1:${server.port}/v1`
  upstream.stop = () => void server.stop(true)
  return upstream
}

export interface Rig {
  readonly upstream: Upstream
  readonly gateways: readonly GatewayProcess[]
  readonly kafka: Awaited<ReturnType<typeof startKafka>>
  /** Between the instances and the broker, where the row requested it. */
  readonly proxy: TcpProxy | null
  /** A budget of everything that the default tenant spends. */
  budget(limitUsd: number, more?: Record<string, unknown>): Promise<string>
  chat(gateway: GatewayProcess, more?: Record<string, unknown>, headers?: Record<string, string>): Promise<number>
  /** The state of a budget, as one gateway reports it. */
  standing(id: string, gateway?: GatewayProcess): Promise<Standing>
  /**
   * Repeats the verification for a while when it does not match: on a busy machine the last outcomes arrive later than
   * a single verification waits.
   */
  verify(id: string, gateway?: GatewayProcess): Promise<Verdict>
  close(): Promise<void>
}

export interface Verdict {
  readonly matches: boolean
  readonly difference_usd: number
  readonly outcomes: number
}

export interface Standing {
  readonly spent_usd: number
  readonly reserved_usd: number
  readonly remaining_usd: number
  readonly overrun_usd: number
}

/** What a script needs otherwise. */
export interface RigOptions {
  /** Instead of the one provider and its model. */
  readonly bootstrap?: Readonly<Record<string, unknown>>
  readonly settings?: Readonly<Record<string, unknown>> & { readonly server?: object }
  /** The instances reach the broker through a proxy. */
  readonly proxied?: true
  /** The source tree that instances run from at first: another build. */
  readonly root?: string
  /** So many of them project, too; none when not given. A Postgres of tests has connections for a few. */
  readonly workers?: number
  /** Ends what the script started beside them. */
  readonly stop?: () => Promise<unknown>
}

export const startRig = async (count: number, options: RigOptions = {}): Promise<Rig> => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-budgets-'))
  const upstream = startUpstream()
  const proxy = options.proxied === true ? await startTcpProxy() : null
  const second = proxy === null ? null : { port: freePort(), advertised: proxy.port }
  if (proxy !== null) proxy.to = second!.port
  const kafka = await startKafka({ brokers: 1, ...(second === null ? {} : { second }) })
  const { server = {}, ...others } = options.settings ?? {}
  // The row sets how many requests are sent at once: none is refused because the machine is busy.
  const more = { server: { max_event_loop_delay: 'off', ...server }, ...others }
  await initTopics(kafkaSettings(kafka.bootstrap, more), folder)
  const settings = kafkaSettings(proxy === null ? kafka.bootstrap : [`127.0.0.1:${proxy.port}`], more)
  const bootstrap = options.bootstrap ?? {
    providers: [{ name: 'up', kind: 'openai_compatible', base_url: upstream.url }],
    models: [
      {
        name: 'm',
        provider: 'up',
        input_cost_per_million: 0,
        output_cost_per_million: USD_PER_MILLION,
        max_output_tokens: TOKENS,
      },
    ],
  }
  const gateways: GatewayProcess[] = []
  for (let n = 0; n < count; n++) {
    const worker = { enabled: n < (options.workers ?? 0) }
    const { root } = options
    const gateway = startGateway({ root, folder: join(folder, `g${n}`), settings: { ...settings, worker, bootstrap } })
    gateways.push(gateway)
    await gateway.until('serving', 60_000) // the first one seeds
  }
  const admin = async (gateway: GatewayProcess, method: string, path: string, body?: unknown): Promise<unknown> => {
    const answer = await gateway.request(`/admin/v1${path}`, { method, body })
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
    return answer.json()
  }
  return {
    upstream,
    gateways,
    kafka,
    proxy,
    async budget(limit_usd, more = {}) {
      const { id } = (await admin(gateways[0]!, 'PUT', '/budgets', { limit_usd, window: 'lifetime', ...more })) as {
        id: string
      }
      for (const gateway of gateways)
        await eventually('it knows the budget', async () => (await gateway.request(`/admin/v1/budgets/${id}`)).ok)
      return id
    },
    async chat(gateway, more = {}, headers = {}) {
      const messages = [{ role: 'user', content: 'hello' }]
      const body = { model: 'm', max_tokens: TOKENS, messages, ...more }
      const answer = await gateway.request('/v1/chat/completions', { body, headers })
      await answer.arrayBuffer()
      return answer.status
    },
    standing: async (id, gateway = gateways[0]!) => (await admin(gateway, 'GET', `/budgets/${id}`)) as Standing,
    async verify(id, gateway = gateways[0]!) {
      for (const untilMs = performance.now() + SHIPPED_MS; ; await Bun.sleep(1_000)) {
        const verdict = (await admin(gateway, 'POST', `/budgets/${id}/verify`)) as Verdict
        if (verdict.matches) return verdict
        console.error(`does not match: ${JSON.stringify(verdict)}`)
        if (performance.now() >= untilMs) return verdict
      }
    },
    async close() {
      for (const gateway of gateways) await gateway.remove()
      await kafka.stop()
      await proxy?.stop()
      await options.stop?.()
      upstream.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export const usdText = (usd: number): string => `$${Math.max(0, usd).toFixed(9)}`

/** Statuses by how often they came. */
export const tally = (statuses: readonly number[]): string =>
  Object.entries(Object.groupBy(statuses, String))
    .map(([status, all]) => `${status}: ${all!.length}`)
    .join(', ')

/** So many requests at once to each instance, one after the other in each lane, until `stop`. */
export const startLanes = (rig: Rig, perInstance: number, refusedPauseMs: number) => {
  const statuses: number[] = []
  let running = true
  let asked = 0
  const lane = async (n: number) => {
    while (running) {
      const user = `${n}.${++asked}`
      const status = await rig.chat(rig.gateways[n]!, { user }, { 'x-request-id': user }).catch(() => 0)
      statuses.push(status)
      if (status !== 200) await Bun.sleep(refusedPauseMs)
    }
  }
  const lanes = rig.gateways.flatMap((_, n) => Array.from({ length: perInstance }, () => lane(n)))
  return {
    /** Of what was answered so far; 0: no answer. */
    statuses,
    async stop() {
      running = false
      await Promise.all(lanes)
    },
  }
}

/** A script's whole run, on `--instances`: its figures, or the instances' output when it failed. */
export const runRows = async (
  rows: (rig: Rig) => Promise<readonly Figure[]>,
  { instances = 3, ...options }: RigOptions & { readonly instances?: number } = {},
): Promise<void> => {
  const rig = await startRig(numberArgument('instances', instances), options)
  try {
    const figures = await rows(rig)
    await rig.close()
    conclude(figures)
  } catch (error) {
    for (const gateway of rig.gateways) console.error(gateway.output().slice(-1_500))
    await rig.close()
    throw error
  }
}
