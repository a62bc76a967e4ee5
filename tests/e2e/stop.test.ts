// docs/behaviour.md: "Stopping"
// A stop that load balancers notice: what comes meanwhile is served, by every process of the installation, and a second
// signal ends that time.
import { afterAll, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { NO_READ_MODELS } from '../services/cluster.ts'
import { eventually } from '../services/eventually.ts'
import { type GatewayProcess, startGateway } from '../services/gateway.ts'
import { ask } from './started.ts'

const started: GatewayProcess[] = []
afterAll(() => Promise.all(started.map((gateway) => gateway.remove())))

/** A signal later than this after another one is a further one. */
const ANOTHER_MS = 600

test.each([1, 2])('of %d processes takes requests until a second signal', async (processes) => {
  const settings = { ...NO_READ_MODELS, server: { processes, drain: '1s' } }
  const gateway = startGateway({ settings, env: { GATEWAY_SERVER_SHUTDOWN_GRACE: '10m' } })
  started.push(gateway)
  await gateway.until('serving', 60_000)
  await eventually('it has its signals', () => gateway.output().includes('listening'))
  process.kill(gateway.pid, 'SIGTERM')
  const checks = await eventually('it is on its way out', async () => {
    const answer = await gateway.request('/ready')
    const body = (await answer.json()) as { checks: Record<string, string> }
    return answer.status === 503 && body.checks.process !== undefined && body.checks
  })
  expect(checks).toEqual({ process: 'degraded: stopping' })
  await Bun.sleep(ANOTHER_MS) // signals within half a second are one
  for (let n = 0; n < 20; n++) {
    const answer = await ask(gateway, `still ${n}`)
    expect([answer.status, answer.headers.get('connection')]).toEqual([200, 'close'])
    await answer.text()
  }
  expect(await gateway.end('SIGTERM')).toBe(0)
})

test('during a start ends it without that time', async () => {
  const gateway = startGateway({ settings: NO_READ_MODELS, env: { GATEWAY_SERVER_SHUTDOWN_GRACE: '10m' } })
  started.push(gateway)
  await eventually('it has its signals and warms up', () => existsSync(join(gateway.folder, 'data', 'warm-up')))
  expect(await gateway.end('SIGTERM')).toBe(0)
})
