// Two processes of one data folder: what an operator does about the health of a provider is done, and told, in both.
import { expect, test } from 'bun:test'
import { closedAfterEach } from '../services/closing.ts'
import { NO_READ_MODELS } from '../services/cluster.ts'
import { eventually } from '../services/eventually.ts'
import { startGateway } from '../services/gateway.ts'

/** A connection each: they are spread over the processes. That so many meet the same one is out of the question. */
const headers = { connection: 'close' }
const READS = 24
const LIMIT_MS = 60_000
const closing = closedAfterEach()

interface Health {
  readonly breakers: { readonly open: number; readonly closed: number }
}

const start = async () => {
  const upstream = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('down', { status: 500 }) })
  closing.push(() => upstream.stop(true))
  const gateway = startGateway({
    settings: {
      ...NO_READ_MODELS,
      server: { processes: 2 },
      diagnostics: { level: 'debug' },
      health: { probe_interval: 'off' },
      bootstrap: {
        providers: [{ name: 'up', kind: 'openai_compatible', base_url: `http://127.0.0.1:${upstream.port}/v1` }],
        models: [{ name: 'm', provider: 'up' }],
        // Nothing but the operator closes it while this test runs.
        policies: [{ name: 'default', breaker: { failure_threshold: 1, cooldown_ms: 600_000 } }],
      },
    },
  })
  closing.push(() => gateway.remove())
  await gateway.until('serving', LIMIT_MS)
  const serving = () => gateway.output().split('"event":"serving"').length - 1
  await eventually('both serve', () => serving() === 2, { limitMs: LIMIT_MS })
  const listed = await gateway.request('/admin/v1/providers?limit=1000')
  const { providers } = (await listed.json()) as { providers: { id: string; name: string }[] }
  const { id } = providers.find(({ name }) => name === 'up')!
  /** As the processes see it, each at least once. */
  const health = (): Promise<Health[]> =>
    Promise.all(
      Array.from({ length: READS }, async () => {
        const answer = await gateway.request(`/admin/v1/providers/health?provider_id=${id}`, { headers })
        return ((await answer.json()) as { providers: Health[] }).providers[0]!
      }),
    )
  const fail = async (): Promise<void> => {
    const body = { model: 'm', messages: [{ role: 'user', content: 'hello' }] }
    await (await gateway.request('/v1/chat/completions', { body, headers })).arrayBuffer()
  }
  return { gateway, health, fail }
}

test(
  'one reload of the policies closes the breakers of both',
  async () => {
    const { gateway, health, fail } = await start()
    const failing = async () => {
      await fail()
      return (await health()).every(({ breakers }) => breakers.open === 1)
    }
    await eventually('both have it open', failing, { limitMs: LIMIT_MS })
    const reloaded = await gateway.request('/admin/v1/policies/reload', { method: 'POST', headers })
    expect(reloaded.status).toBe(200)
    expect(reloaded.headers.get('x-gateway-applied-by')).toMatch(/^[12]\/2$/)
    const closed = async () => (await health()).every(({ breakers }) => breakers.closed === 1)
    await eventually('both have it closed', closed, { limitMs: LIMIT_MS })
  },
  4 * LIMIT_MS,
)
