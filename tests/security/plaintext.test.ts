// API keys and session tokens stay in no reachable memory of the gateway: the test reads all that a real process can
// reach, once its requests are answered.
// Searched: strings of the JavaScript heap of the serving thread, up to the length at which a snapshot cuts them, and
// the reads of clients' connections.
// Not searched: freed memory that is not overwritten yet, the runtime's own buffers (one read buffer of the event loop,
// overwritten by the next reads), the reused buffers of the program, and other threads, which get no key. Keys of the
// settings and the environment stay where the operator put them.
// Reused buffers are `SCRATCH` of lib/http-client/pool.ts and of lib/http-server/output.ts, and the one of
// lib/event-loop/shared-buffer.ts. Each keeps the last bytes of a request or response until later ones overwrite them.
import { afterAll, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defaultTenant } from '../e2e/started.ts'
import { eventually } from '../services/eventually.ts'
import { ADMIN_KEY, startGateway } from '../services/gateway.ts'

/** Digits of which a name, a snapshot and a process hold nothing by chance. */
const secret = (): string => randomBytes(24).toString('hex')
const PLANTED = secret()

const folder = mkdtempSync(join(tmpdir(), 'gatelog-heap-'))
const unix = join(folder, 'look')
const gateway = startGateway({
  preload: [join(import.meta.dir, 'preloads/heap-look.ts')],
  env: { HEAP_LOOK: unix, HEAP_PLANTED: [...PLANTED].reverse().join('') },
})
afterAll(async () => {
  await gateway.remove()
  rmSync(folder, { recursive: true, force: true })
})

/** What the process can reach. */
const look = async (): Promise<{ strings: string[]; reads: string[] }> =>
  (await fetch('http://gateway/', { unix })).json() as never

const issued = async (tenant_id: string, name: string, scopes: readonly string[]): Promise<string> => {
  const answer = await gateway.request('/admin/v1/keys', { key: ADMIN_KEY, body: { tenant_id, name, scopes } })
  expect([name, answer.status]).toEqual([name, 201])
  return ((await answer.json()) as { plaintext: string }).plaintext
}

const CHAT = { model: 'sandbox-echo', messages: [{ role: 'user', content: 'hello' }] }
/** Requests of which no header names a client. */
const othersCome = async (): Promise<void> => {
  for (let i = 0; i < 20; i++) await (await gateway.request('/health', { key: null })).text()
}

/** A request whose body has come by half. */
const halfRequest = async (key: string) => {
  const body = JSON.stringify(CHAT)
  const answered = Promise.withResolvers<string>()
  const socket = await Bun.connect({
    hostname: '127.0.0.1',
    port: Number(new URL(gateway.url).port),
    socket: {
      data: (_, bytes) => answered.resolve(bytes.toString('latin1')),
      close: () => answered.reject(new Error('the connection was closed')),
    },
  })
  const head = ['POST /v1/chat/completions HTTP/1.1', 'Host: a', `Authorization: Bearer ${key}`]
  const half = Math.floor(body.length / 2)
  socket.write(`${head.join('\r\n')}\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, half)}`)
  return {
    /** The rest is sent; the connection stays open. */
    async finish() {
      socket.write(body.slice(half))
      expect(await answered.promise).toStartWith('HTTP/1.1 200')
    },
    close: () => socket.end(),
  }
}

test('S18: once its request is answered, no key and no session token is in the memory that the gateway uses', async () => {
  await gateway.until('serving')
  const tenant = await defaultTenant(gateway)
  const inference = await issued(tenant, 'inference', ['inference'])
  const admin = await issued(tenant, 'admin', ['*'])
  const waiting = await issued(tenant, 'waiting', ['inference'])
  const keys = `/admin/v1/keys?tenant_id=${tenant}`
  const wrong = `gw_live_${secret()}`
  const session = secret().slice(0, 43) // as long as a token is
  const statuses: number[] = []
  const sent = async (
    path: string,
    key: string | null,
    init: { body?: unknown; headers?: Record<string, string> } = {},
  ) => {
    const answer = await gateway.request(path, { key, ...init })
    await answer.text()
    statuses.push(answer.status)
  }
  for (let i = 0; i < 3; i++) {
    await sent('/v1/chat/completions', inference, { body: CHAT })
    await sent('/v1/chat/completions', inference, { body: { ...CHAT, stream: true } })
    await sent('/v1/models', null, { headers: { Authorization: `bearer ${inference}` } })
    await sent(keys, admin)
    await sent('/v1/chat/completions', wrong, { body: CHAT })
    await sent(keys, wrong)
    await sent(keys, null, { headers: { Cookie: `gateway_session=${session}` } })
  }
  expect(statuses.slice(-7)).toEqual([200, 200, 200, 200, 401, 401, 401])

  // What is there is found: a string that was kept, and the read of a request that waits for its body.
  await fetch('http://gateway/plant', { unix })
  const half = await halfRequest(waiting)
  await eventually('the read of a request that is not answered is found', async () =>
    (await look()).reads.some((read) => read.includes(waiting)),
  )
  await half.finish()

  // The collector takes an old value of a register or of the stack for a reference: other work writes over those.
  const digits = Object.entries({ inference, admin, waiting, wrong, session }).map(
    ([name, text]) => [name, text.slice(-24)] as const,
  )
  let found: string[] = []
  await eventually(
    () => `nothing is found, not ${found.join(', ')}`,
    async () => {
      await othersCome()
      const { strings, reads } = await look()
      expect(strings.some((text) => text.includes(PLANTED))).toBe(true)
      found = digits.flatMap(([name, text]) => [
        ...(strings.some((each) => each.includes(text)) ? [`${name} in a string`] : []),
        ...(reads.some((each) => each.includes(text)) ? [`${name} in a read`] : []),
      ])
      return found.length === 0
    },
    { limitMs: 15_000, everyMs: 100 },
  )
  half.close()
})
