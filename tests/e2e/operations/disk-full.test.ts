// docs/behaviour.md: "Overload". A data folder on a disk that is really full, and is emptied again.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from '../../services/eventually.ts'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'

const ASK = { model: 'sandbox-echo', messages: [{ role: 'user', content: 'Hello' }] }
const folder = mkdtempSync(join(tmpdir(), 'gatelog-full-'))
/** Needs root, and a machine or container that lets it mount. */
const isMounted =
  Bun.spawnSync(['mount', '-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', folder], { stderr: 'ignore' }).exitCode === 0
let gateway: GatewayProcess

beforeAll(async () => {
  if (!isMounted) return
  gateway = startGateway({
    settings: {
      data: { dir: join(folder, 'data') },
      database: { url: 'postgres://nobody@127.0.0.1:1/nothing' },
      worker: { enabled: false },
    },
  })
  await gateway.until('serving')
}, 60_000)
afterAll(async () => {
  if (!isMounted) return rmSync(folder, { recursive: true })
  await gateway.remove()
  Bun.spawnSync(['umount', '-l', folder])
  rmSync(folder, { recursive: true })
})

const chat = () => gateway.request('/v1/chat/completions', { body: ASK })

const fill = () => {
  try {
    for (let number = 0; number < 200; number++)
      writeFileSync(join(folder, 'fill'), Buffer.alloc(256 * 1024), { flag: 'a' })
  } catch {
    return // no room is left
  }
  throw new Error('the disk is larger than it should be')
}

test('a start on a disk with too little room says how much it needs', () => {
  if (!isMounted) return
  expect(gateway.output()).toMatch(/"disk_room","lacking":"the disk of \S+ has \d+ MiB free, a start needs 32 MiB/)
})

test('a full disk is 503 with Retry-After and its reason, and requests are taken again once there is room', async () => {
  if (!isMounted) return
  expect((await chat()).status).toBe(200)
  fill()
  await eventually('admission is closed', async () => (await chat()).status !== 200)
  const refused = await chat()
  expect([refused.status, refused.headers.get('retry-after'), refused.headers.get('x-should-retry')]).toEqual([
    503,
    '5',
    'true',
  ])
  expect(await refused.json()).toMatchObject({
    error: { code: 'provider_unavailable', message: expect.stringMatching(/data\.dir.*\d+ MiB are needed$/) },
  })
  const ready = (await (await gateway.request('/ready')).json()) as { checks: Record<string, string> }
  expect(ready.checks.spool).toMatch(/^degraded: the disk of data\.dir .*16 MiB are needed$/)
  rmSync(join(folder, 'fill'))
  await eventually('there is room again', async () => (await chat()).status === 200)
}, 60_000)
