// Compiles the request path before load balancers choose this process. The runtime compiles what has run often: the
// first hundreds of requests take many times as long as later ones, and a process that gets its share of the load at
// once would refuse some of them. So chat completions go through the same code before, over connections of the
// warm-up's own, to the sandbox. Their key, state, spool, health and limits exist for the warm-up alone: no record of
// them is in the log, and no budget is charged.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../../config/schema.ts'
import { failureHandlers } from '../../http/failure-handlers.ts'
import { chatHandler, hotRoutes, inferenceRoutes } from '../../http/inference.ts'
import { admitWhileRoom } from '../../http/overload.ts'
import { chatCompletions } from '../../inference/chat.ts'
import { processLimits } from '../../inference/limits/local.ts'
import { INFERENCE_DEFAULTS, type InferenceDeps } from '../../inference/request/deps.ts'
import { sha256Hex } from '../../lib/crypto/digest.ts'
import { newApiKey } from '../../lib/crypto/ids.ts'
import { LoadGate } from '../../lib/event-loop/load-gate.ts'
import { createDialer, type Dial } from '../../lib/http-client/http-client.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { type LocalSpool, openSpool } from '../../log/spool/spool.ts'
import { KINDS } from '../../providers/kinds.ts'
import { NO_BUDGETS } from '../../state/budgets/budgets.ts'
import { openHealth } from '../../state/health/book.ts'
import { FeedbackMeans } from '../../state/health/feedback-means.ts'
import { openKeyIndex } from '../../state/indexes/api-keys.ts'
import { openCatalogue } from '../../state/indexes/catalogue.ts'
import { lastUses } from '../../state/indexes/last-uses.ts'
import { createSteering } from '../../state/indexes/live-steering.ts'
import { RecentRequests } from '../../state/indexes/recent-requests.ts'
import { LISTENERS } from '../listener.ts'
import { FAR_MODEL, KEY_VARIABLE, NO_DATA_KEYS, warmUpState } from './state.ts'

export interface WarmUpOptions {
  readonly config: Pick<Config, 'server' | 'data' | 'log'>
  readonly diagnostics: Diagnostics
  /** The first process of a data folder: removes what was left by starts that were ended in the middle. */
  readonly primary: boolean
}

export interface WarmUp {
  /** True once it has ended, in whatever way but by `stop`. */
  isDone(): boolean
  /** Never rejects. */
  readonly ended: Promise<void>
  stop(): Promise<void>
}

const LOOPBACK = '127.0.0.1'
/** Each is answered twice: by the far provider, which is the same port, and there by the sandbox. */
const REQUESTS = 240
const AT_ONCE = 8
/** A machine that is slower serves with what is compiled by then. */
const AT_MOST_MS = 3_000
const CALL_MS = 2_000
const ANSWER_BYTES = 65_536
const SEGMENT_BYTES = 4 * 1_048_576
const IDLE_MS = 10_000

/**
 * Begins it, while the rest of the start waits for the log. A failure is reported and prevents nothing: the process
 * serves all the same, only slower at first.
 */
export const startWarmUp = (options: WarmUpOptions): WarmUp => {
  const stopping = new AbortController()
  let isDone = false
  const ended = warmUp(options, stopping.signal).finally(() => {
    isDone = !stopping.signal.aborted
  })
  return {
    isDone: () => isDone,
    ended,
    stop() {
      stopping.abort()
      return ended
    },
  }
}

const warmUp = async (options: WarmUpOptions, signal: AbortSignal): Promise<void> => {
  const { config, diagnostics } = options
  const startedMs = performance.now()
  const all = join(config.data.dir, 'warm-up')
  const folder = join(all, String(process.pid)) // siblings share the data folder
  const remove = () => rmSync(options.primary ? all : folder, { recursive: true, force: true })
  try {
    remove()
    const requests = await sendOver(options, folder, signal).finally(remove)
    diagnostics.debug('warmed_up', { requests, took_ms: Math.round(performance.now() - startedMs) })
  } catch (error) {
    diagnostics.warn('not_warmed_up', { error })
  }
}

/** Sends all, on a spool in that folder. */
const sendOver = async (options: WarmUpOptions, folder: string, signal: AbortSignal): Promise<number> => {
  const spool = await openSpool({
    dataDir: folder,
    durability: options.config.log.durability === 'host' ? 'host' : 'process',
    keeping: { until: 'shipped' },
    nowMs: Date.now,
    segmentBytes: SEGMENT_BYTES,
    ballastBytes: 0,
  })
  try {
    return await sendAll(options, spool, signal)
  } finally {
    await spool.close()
  }
}

/** Returns how many requests were answered. Throws for one that was not. */
const sendAll = async (
  { config, diagnostics }: WarmUpOptions,
  spool: LocalSpool,
  signal: AbortSignal,
): Promise<number> => {
  const dialer = createDialer({ allowPrivate: true })
  const key = newApiKey()
  const handlers = Promise.withResolvers<ReturnType<typeof handlersOf>>()
  const server = LISTENERS[config.server.listener]({
    hostname: LOOPBACK,
    port: 0,
    reusePort: false,
    idleMs: IDLE_MS,
    headMs: IDLE_MS,
    handlers: {
      fetch: async (request) => (await handlers.promise).fetch(request),
      hot: [],
      ...failureHandlers({ diagnostics }),
    },
  })
  try {
    const baseUrl = `http://${LOOPBACK}:${server.port}/v1`
    const mounted = handlersOf({ key, baseUrl, spool, dial: dialer.dial, diagnostics })
    server.reload({ handlers: mounted, idleMs: IDLE_MS })
    handlers.resolve(mounted)
    const untilMs = performance.now() + AT_MOST_MS
    let sent = 0
    while (sent < REQUESTS && performance.now() < untilMs && !signal.aborted) {
      await Promise.all(Array.from({ length: AT_ONCE }, () => send(dialer.dial, baseUrl, key, sent++)))
    }
    return sent
  } finally {
    server.stop()
    dialer.close()
  }
}

interface Served {
  readonly key: string
  readonly baseUrl: string
  readonly spool: LocalSpool
  readonly dial: Dial
  readonly diagnostics: Diagnostics
}

const handlersOf = ({ key, baseUrl, spool, dial, diagnostics }: Served) => {
  const live = warmUpState(key, baseUrl)
  const env = { [KEY_VARIABLE]: key }
  const catalogue = openCatalogue({
    live,
    dataKeys: NO_DATA_KEYS,
    env,
    envIsAllowed: () => true,
    kinds: KINDS,
    diagnostics,
  })
  const health = openHealth({ catalogue, nowMs: Date.now, monotonicMs: () => performance.now(), emit: () => undefined })
  const inference: InferenceDeps = {
    live,
    keys: openKeyIndex(live),
    lastUses: lastUses(),
    catalogue,
    steering: createSteering(live),
    frames: health,
    health,
    recentRequests: new RecentRequests(),
    feedback: new FeedbackMeans(),
    requestLookup: {
      hasOthers: false,
      find: () => Promise.resolve(null),
      isKnown: () => Promise.resolve(false),
      behindMs: () => Promise.resolve(0),
    },
    kinds: KINDS,
    budgets: NO_BUDGETS,
    nowMs: Date.now,
    limits: processLimits(() => performance.now()),
    spool,
    dial,
    random: Math.random,
    userDigest: (tenantId, user) => sha256Hex(`${tenantId}\0${user}`),
    observe: () => undefined,
    inference: INFERENCE_DEFAULTS,
  }
  const gate = new LoadGate({ everyMs: 0, maxDelayMs: null, maxMemoryBytes: null, nowMs: () => 0 })
  const hot = hotRoutes(admitWhileRoom(chatHandler(chatCompletions(inference), inference), gate))
  const routes = inferenceRoutes(hot, inference)
  return { fetch: (request: Request) => routes.fetch(request), hot, ...failureHandlers({ diagnostics }) }
}

const send = async (dial: Dial, baseUrl: string, key: string, n: number): Promise<void> => {
  const messages = [
    { role: 'system', content: 'Answer in one sentence.' },
    { role: 'user', content: `This request compiles the path of requests: ${n}.` },
  ]
  const body = { model: FAR_MODEL, messages, temperature: 0.5, user: `${n}`, ...(n % 2 === 1 && { stream: true }) }
  const signal = AbortSignal.timeout(CALL_MS)
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` }
  const answer = await dial(
    { method: 'POST', url: `${baseUrl}/chat/completions`, headers, body: JSON.stringify(body) },
    { signal, connectMs: CALL_MS, headersMs: CALL_MS },
  )
  const text = await answer.text(ANSWER_BYTES)
  if (answer.status !== 200) throw new Error(`a request of the warm-up was answered ${answer.status}: ${text}`)
}
