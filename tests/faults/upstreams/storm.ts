// R27: a provider fails all the time, one time in three, together with the other one, or requests strange pauses: `bun
// tests/faults/upstreams/storm.ts [--seconds 10]`.
// Prints what clients received, how many calls their requests caused, and how long it took until the provider was no
// longer called and was called again.
import { ADMIN_KEY, startGateway } from '../../services/gateway.ts'
import { conclude, type Figure, numberArgument } from '../control/figures.ts'
import { WITHOUT_LOAD_GATE } from '../rig.ts'

const SECONDS = numberArgument('seconds', 10)
const LANES = 8
const PAUSE_MS = 10
/** Not called for so long: it is left alone. Shorter than the cooldown of a breaker. */
const ALONE_MS = 500
/** Calls of one request that may be made in the mean. */
const MOST_CALLS = 1.2
const READMIT_LIMIT_MS = 60_000
const STRANGE = ['-1', '1e9', 'Fri, 31 Dec 1999 23:59:59 GMT', 'soon', '0', '']

interface Upstream {
  readonly url: string
  calls: number
  lastMs: number
  answer: (call: number) => Response
  stop(): void
}

const answered = () =>
  Response.json({
    ...{ id: 'x', object: 'chat.completion', created: 1, model: 'm' },
    choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  })
const failing = () => Response.json({ error: { message: 'down' } }, { status: 503 })
const flapping = (call: number) => (call % 10 < 3 ? failing() : answered())
const strange = (call: number) =>
  Response.json(
    { error: { message: 'slowly' } },
    { status: 429, headers: { 'retry-after': STRANGE[call % STRANGE.length]! } },
  )

const startUpstream = (): Upstream => {
  const upstream: Upstream = { url: '', calls: 0, lastMs: 0, answer: answered, stop: () => {} }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      await request.text()
      if (request.method === 'GET') return Response.json({ data: [] }) // a probe
      upstream.lastMs = performance.now()
      return upstream.answer(upstream.calls++)
    },
  })
  return Object.assign(upstream, { url: `http://127.0.0.1:${server.port}/v1`, stop: () => void server.stop(true) })
}

const [first, second] = [startUpstream(), startUpstream()]
const models = ['first', 'second'].map((provider, i) => ({ name: 'm', provider, priority: i + 1 }))
const providers = [first, second].map(({ url }, i) => ({
  ...{ name: ['first', 'second'][i]!, kind: 'openai_compatible', base_url: url },
}))
const gateway = startGateway({
  settings: { ...WITHOUT_LOAD_GATE, worker: { enabled: false }, bootstrap: { providers, models } },
})
await gateway.until('serving', 60_000)
const policy = { name: 'default', tenant_id: null, strategy: 'priority' }
const made = await gateway.request('/admin/v1/policies', { body: policy, key: ADMIN_KEY })
if (!made.ok) throw new Error(`policy: ${made.status} ${await made.text()}`)

const statuses = new Map<number, number>()
let retryAfterWrong = 0
let running = true
const lanes = Array.from({ length: LANES }, async () => {
  while (running) {
    const body = { model: 'm', messages: [{ role: 'user', content: 'hello' }] }
    const answer = await gateway.request('/v1/chat/completions', { body }).catch(() => null)
    await answer?.arrayBuffer()
    statuses.set(answer?.status ?? 0, (statuses.get(answer?.status ?? 0) ?? 0) + 1)
    const said = answer?.headers.get('retry-after') ?? null
    if (said !== null && !/^\d{1,6}$/.test(said)) retryAfterWrong++
    await Bun.sleep(PAUSE_MS)
  }
})
const until = async (isSo: () => boolean, limitMs: number): Promise<number> => {
  const startedMs = performance.now()
  while (!isSo() && performance.now() - startedMs < limitMs) await Bun.sleep(20)
  return performance.now() - startedMs
}
const counted = (): number => [...statuses.values()].reduce((sum, count) => sum + count, 0)

/** Until the first provider gets most of the requests again. */
const readmitted = async (): Promise<number> => {
  let [own, all] = [first.calls, first.calls + second.calls]
  let sinceMs = performance.now()
  return until(() => {
    if (performance.now() - sinceMs < 300) return false
    const share = (first.calls - own) / Math.max(1, first.calls + second.calls - all)
    ;[own, all, sinceMs] = [first.calls, first.calls + second.calls, performance.now()]
    return share > 0.5
  }, READMIT_LIMIT_MS)
}

const storm = async (
  what: string,
  own: Upstream['answer'],
  others: Upstream['answer'],
  expected: 'none fails' | 'all fail',
): Promise<Figure> => {
  await readmitted()
  statuses.clear()
  retryAfterWrong = 0
  const callsBefore = first.calls + second.calls
  first.answer = own
  second.answer = others
  const aloneMs = await until(() => performance.now() - first.lastMs > ALONE_MS, SECONDS * 1_000)
  await Bun.sleep(Math.max(0, SECONDS * 1_000 - aloneMs))
  const n = counted()
  const failed = n - (statuses.get(200) ?? 0)
  const calls = first.calls + second.calls - callsBefore
  first.answer = answered
  second.answer = answered
  const backMs = await readmitted()
  const said = [...statuses].map(([status, count]) => `${status}: ${count}`).join(', ')
  const isLeft = aloneMs < SECONDS * 1_000
  return {
    row: 'R27',
    what,
    figure:
      `clients failed ${failed} of ${n} (${said}); ${(calls / Math.max(1, n)).toFixed(2)} calls for each request; ` +
      `${isLeft ? `left alone after ${Math.max(0, aloneMs - ALONE_MS).toFixed(0)} ms` : 'never left alone'}, asked ` +
      `again ${backMs.toFixed(0)} ms after it was well; Retry-After that is no number ${retryAfterWrong}`,
    n,
    good:
      (expected === 'all fail' || failed === 0) &&
      calls / Math.max(1, n) <= MOST_CALLS &&
      backMs < READMIT_LIMIT_MS &&
      retryAfterWrong === 0,
  }
}

const figures = [
  await storm('the first of two providers answers 503 to everything', failing, answered, 'none fails'),
  await storm('the first answers 503 to three of ten', flapping, answered, 'none fails'),
  await storm(`the first answers 429 with Retry-After ${STRANGE.join(', ')}`, strange, answered, 'none fails'),
  // The last one: the other one is left alone too, and for a while.
  await storm('both answer 503 to everything', failing, failing, 'all fail'),
]
running = false
await Promise.all(lanes)
await gateway.remove()
first.stop()
second.stop()
conclude(figures)
