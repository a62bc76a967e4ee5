// Rows about parts that this version does not have. Each test fails on the day the part comes, and says what is to be
// proven then.
import { afterAll, expect, test } from 'bun:test'
import { PLANNED } from '../../src/http/admin/planned.ts'
import { startGateway } from '../http/admin/world/gateway.ts'
import { entry, KEY, testGateway } from '../inference/gateway.ts'
import { startUpstream } from '../services/upstream.ts'

const SECOND_TENANT = 'gw_live_secondsecondsecondsecondsecondsecond'
const upstream = startUpstream()
const gateway = testGateway({
  entries: [entry({ baseUrl: upstream.baseUrl })],
  keys: { [SECOND_TENANT]: { id: 'key_second', tenantId: 'ten_2' } },
})
afterAll(async () => {
  gateway.close()
  await upstream.stop()
})

const planned = (prefix: string) => PLANNED.filter(({ path }) => path.startsWith(prefix))
const statusOf = async (method: string, path: string) => (await startGateway().call(method, path)).status

// docs/behaviour.md: "The gateway block", "Cache rules"
test('S28: nothing is answered from a cache: what one tenant asked and another asks again reaches the provider each time', async () => {
  const body = { model: 'small', temperature: 0, messages: [{ role: 'user', content: 'the same question' }] }
  const said = new Set<string>()
  for (const key of [KEY, SECOND_TENANT, KEY, SECOND_TENANT]) {
    const text = `answer ${said.size}`
    upstream.next({ text })
    const answer = (await (await gateway.send('/v1/chat/completions', { body, key })).json()) as {
      choices: { message: { content: string } }[]
      gateway: { cache_hit: boolean }
    }
    expect([answer.choices[0]!.message.content, answer.gateway.cache_hit]).toEqual([text, false])
    said.add(text)
  }
  expect(upstream.received).toHaveLength(4)
})

// docs/behaviour.md: "Cache rules"
test('S29: nothing is kept that could be poisoned: the reads and writes of the cache are planned, and 501', async () => {
  const routes = planned('/cache')
  expect(routes.length).toBe(4)
  for (const { method, path } of routes) expect([path, await statusOf(method, path)]).toEqual([path, 501])
})

// docs/behaviour.md: "Tools"
test('S33: no tool is run by the gateway: runs and invocations are planned, and 501', async () => {
  const routes = [...planned('/tool-invocations'), ...planned('/agent-runs')]
  expect(routes.length).toBe(4)
  for (const { method, path } of routes) expect([path, await statusOf(method, path)]).toEqual([path, 501])
})

test('S34: nothing is reached through a tunnel: no route makes one, all are planned, and 501', async () => {
  const routes = planned('/tunnels')
  expect(routes.length).toBe(6)
  for (const { method, path } of routes) expect([path, await statusOf(method, path)]).toEqual([path, 501])
})
