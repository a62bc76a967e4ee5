// A hard budget on a real gateway without a broker: refused in time, cut in the middle of a stream, and the same after a kill as the log says.
import { expect, test } from 'bun:test'
import { eventually } from '../services/eventually.ts'
import { startGateway } from '../services/gateway.ts'

interface Standing {
  readonly id: string
  readonly spent_usd: number
  readonly reserved_usd: number | null
  readonly remaining_usd: number
}

/** Answers with all the tokens that a client allows; streams as many chunks as it is told, whatever the client allows. */
const upstreamOf = () => {
  const upstream = { url: '', arrived: 0, stop: () => {}, hold: null as Promise<void> | null }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      if (request.method === 'GET') return Response.json({ data: [] })
      const { max_tokens: tokens = 1, stream } = (await request.json()) as { max_tokens?: number; stream?: boolean }
      if (stream === true) return new Response(endless(), { headers: { 'content-type': 'text/event-stream' } })
      upstream.arrived += 1
      await upstream.hold
      const usage = { prompt_tokens: 0, completion_tokens: tokens, total_tokens: tokens }
      const choices = [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }]
      return Response.json({ id: 'x', object: 'chat.completion', created: 1, model: 'm', choices, usage })
    },
  })
  upstream.url = `http://127.0.0.1:${server.port}/v1`
  upstream.stop = () => void server.stop(true)
  return upstream
}

const endless = (): ReadableStream<Uint8Array> => {
  const delta = { role: 'assistant', content: 'word '.repeat(200) }
  const chunk = { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta }] }
  const bytes = new TextEncoder().encode(`data: ${JSON.stringify(chunk)}\n\n`)
  return new ReadableStream({
    async pull(controller) {
      await Bun.sleep(1)
      controller.enqueue(bytes)
    },
  })
}

test('a hard budget is kept, through a kill and a restart', async () => {
  const upstream = upstreamOf()
  const model = { input_cost_per_million: 0, output_cost_per_million: 10, max_output_tokens: 1_000 }
  const gateway = startGateway({
    settings: {
      worker: { enabled: false },
      bootstrap: {
        providers: [{ name: 'up', kind: 'openai_compatible', base_url: upstream.url }],
        models: [{ name: 'm', provider: 'up', ...model }],
      },
    },
  })
  try {
    await gateway.until('serving')
    const messages = [{ role: 'user', content: 'hello' }]
    const chat = (more = {}) =>
      gateway.request('/v1/chat/completions', { body: { model: 'm', max_tokens: 100, messages, ...more } })
    const put = await gateway.request('/admin/v1/budgets', {
      method: 'PUT',
      body: { limit_usd: 0.02, window: 'lifetime' },
    })
    const { id } = (await put.json()) as Standing
    const standing = async () => (await (await gateway.request(`/admin/v1/budgets/${id}`)).json()) as Standing
    const verify = async () =>
      (await (await gateway.request(`/admin/v1/budgets/${id}/verify`, { method: 'POST' })).json()) as object

    // 1 mUSD each, 20 of them in all.
    const first = await Promise.all(Array.from({ length: 10 }, async () => (await chat()).status))
    expect(first).toEqual(Array(10).fill(200))
    const { promise, resolve } = Promise.withResolvers<void>()
    upstream.hold = promise
    const open = Array.from({ length: 4 }, () => chat().catch(() => null))
    await eventually('under way', () => upstream.arrived === 14)
    await gateway.end('SIGKILL')
    resolve()
    upstream.hold = null
    await Promise.all(open)
    gateway.start()
    await gateway.until('serving')
    // What was under way counts at what it reserved, as its orphaned outcomes say.
    await eventually('given back', async () => {
      const { reserved_usd, spent_usd } = await standing()
      return reserved_usd === 0 && spent_usd === 0.014 ? true : null
    })
    expect(await verify()).toMatchObject({ matches: true, outcomes: 14, difference_usd: 0 })

    const rest = await Promise.all(Array.from({ length: 20 }, async () => (await chat()).status))
    expect(rest.filter((status) => status === 200)).toHaveLength(6)
    const refused = await chat()
    expect(refused.status).toBe(402)
    expect(await refused.json()).toMatchObject({
      error: { code: 'quota_exceeded', details: { limit_usd: 0.02, resets_at: null, scope: { type: 'tenant' } } },
    })

    await gateway.request('/admin/v1/budgets', { method: 'PUT', body: { limit_usd: 0.0225, window: 'lifetime' } })
    const cut = await chat({ stream: true })
    const text = await cut.text()
    expect(text).toContain('event: error')
    expect(text).toContain('quota_exceeded')
    expect(text.trimEnd()).toEndWith('data: [DONE]')
    expect((await standing()).spent_usd).toBeLessThanOrEqual(0.0225)
    expect(await verify()).toMatchObject({ matches: true })
  } finally {
    await gateway.remove()
    upstream.stop()
  }
}, 90_000)
