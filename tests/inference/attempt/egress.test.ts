// A client cannot make the gateway call an address of the client's choice, neither by fields of the body nor by URLs in
// messages.
import { afterAll, expect, test } from 'bun:test'
import { KINDS } from '../../../src/providers/kinds.ts'
import { startRawServer } from '../../services/raw-server.ts'
import { startUpstream } from '../../services/upstream.ts'
import { entry, testGateway } from '../gateway.ts'

const upstream = startUpstream()
/** No request may reach this server. */
const trap = startRawServer((connection) => connection.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'))
afterAll(async () => {
  trap.stop()
  await upstream.stop()
})

const gatewayOf = (kind: string) =>
  testGateway({
    entries: [entry({ kind, baseUrl: upstream.baseUrl, secret: 'sk-secret-0123456789', region: 'us-east-1' })],
    kinds: [...KINDS.values()],
  })

test('S5: fields that name addresses and keys never route: they go to the provider as they came, or are refused', async () => {
  const gateway = gatewayOf('openai_compatible')
  const fields = {
    api_base: trap.origin,
    base_url: trap.origin,
    api_key: 'sk-mine',
    extra_headers: { authorization: 'x' },
    gateway: { base_url: trap.origin },
    provider: { url: trap.origin },
  }
  for (const [name, value] of Object.entries(fields)) {
    upstream.received.length = 0
    const body = { model: 'small', messages: [{ role: 'user', content: 'hi' }], [name]: value }
    const { status } = await gateway.chat(body)
    expect([name, status]).toEqual([name, 200])
    expect(upstream.received.map(({ body: sent }) => sent?.[name])).toEqual([value])
    expect(upstream.received[0]!.headers.get('authorization')).toBe('Bearer sk-secret-0123456789')
  }
  expect(trap.connections).toHaveLength(0)
  gateway.close()
})

test('S3: a provider that sends us elsewhere is an upstream error; neither key nor prompt goes there', async () => {
  upstream.received.length = 0
  let asked = 0
  for (const kind of ['openai_compatible', 'anthropic', 'gemini']) {
    const gateway = gatewayOf(kind)
    for (const status of [301, 302, 303, 307, 308])
      for (const stream of [false, true]) {
        upstream.behave({ status, headers: { location: `${trap.origin}/v1/elsewhere` } })
        const response = await gateway.chat({ model: 'small', stream, messages: [{ role: 'user', content: 'hi' }] })
        const { error } = (await response.json()) as { error: { code: string } }
        expect([kind, status, response.status, error.code]).toEqual([kind, status, 502, 'upstream_error'])
        asked++
      }
    gateway.close()
  }
  upstream.behave({})
  expect(asked).toBe(30)
  expect(upstream.received.length).toBeGreaterThanOrEqual(asked)
  expect(trap.connections).toHaveLength(0)
})

test('S6: URLs in messages are never fetched, whatever the kind of the provider', async () => {
  upstream.received.length = 0
  for (const kind of KINDS.keys()) {
    const gateway = gatewayOf(kind)
    const url = `${trap.origin}/image.png`
    const parts = [
      { type: 'text', text: `look at ${url}` },
      { type: 'image_url', image_url: { url } },
    ]
    const files = [
      { type: 'file', file: { file_url: url, file_data: url, filename: 'a.pdf' } },
      { type: 'input_audio', input_audio: { data: url, format: 'mp3' } },
    ]
    for (const content of [parts, files]) {
      const response = await gateway.chat({ model: 'small', messages: [{ role: 'user', content }] })
      await response.text() // taken, or refused where the wire has no such part
    }
    gateway.close()
  }
  expect(upstream.received.filter(({ text }) => text.includes(trap.origin)).length).toBeGreaterThan(KINDS.size / 2)
  expect(trap.connections).toHaveLength(0)
})
