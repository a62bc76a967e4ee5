// Two processes of one data folder: an operator's action on the health of a provider takes effect, and is shown, in
// both.
import { expect, test } from 'bun:test'
import { closedAfterEach } from '../../services/closing.ts'
import { NO_READ_MODELS } from '../../services/cluster.ts'
import { eventually } from '../../services/eventually.ts'
import { startGateway } from '../../services/gateway.ts'
import { sharedPostgres } from '../../services/postgres.ts'

/** A connection each: they are spread over the processes. That so many meet the same one is out of the question. */
const headers = { connection: 'close' }
const READS = 24
const LIMIT_MS = 60_000
const closing = closedAfterEach()

interface Health {
  readonly status: string
  readonly breakers: { readonly open: number; readonly closed: number }
  readonly probes: readonly { readonly checked_at: string; readonly trigger: string }[]
  readonly probes_complete: boolean
}

/** `stores`: settings of the read models. */
const start = async (stores: Readonly<Record<string, unknown>> = NO_READ_MODELS) => {
  const upstream = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('down', { status: 500 }) })
  closing.push(() => upstream.stop(true))
  const gateway = startGateway({
    settings: {
      ...stores,
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
  let from = 0
  const serve = async (): Promise<void> => {
    await gateway.until('serving', LIMIT_MS)
    const serving = () => gateway.output().slice(from).split('"event":"serving"').length - 1
    await eventually('both serve', () => serving() === 2, { limitMs: LIMIT_MS })
  }
  const restart = async (): Promise<void> => {
    await gateway.end('SIGTERM')
    from = gateway.output().length
    gateway.start()
    await serve()
  }
  await serve()
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
  return { gateway, id, health, fail, restart }
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

test(
  'a probe that one of them made is told by both, and after a restart',
  async () => {
    const database = await sharedPostgres()
    closing.push(() => database.remove())
    const { gateway, id, health, restart } = await start({ database: { url: database.url } })
    const probed = await gateway.request(`/admin/v1/providers/${id}/probe`, { method: 'POST', headers })
    const { checked_at } = (await probed.json()) as { checked_at: string }
    const told = async () =>
      (await health()).every(
        ({ status, probes, probes_complete }) =>
          probes_complete && status === 'degraded' && probes.length === 1 && probes[0]!.checked_at === checked_at,
      )
    await eventually('both tell of it', told, { limitMs: LIMIT_MS })
    await restart()
    await eventually('both still do', told, { limitMs: LIMIT_MS })
  },
  6 * LIMIT_MS,
)
