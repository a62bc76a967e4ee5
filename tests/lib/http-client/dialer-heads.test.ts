// What is sent is what was asked for, also where heads are remembered.
import { afterAll, expect, test } from 'bun:test'
import { createDialer } from '../../../src/lib/http-client/dialer.ts'

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch: async (request) =>
    Response.json({
      method: request.method,
      label: request.headers.get('x-label'),
      encoding: request.headers.get('accept-encoding'),
      length: request.headers.get('content-length'),
      body: await request.text(),
    }),
})
const { dial, close } = createDialer({ allowPrivate: true })
afterAll(async () => {
  close()
  await server.stop(true)
})

const limits = { signal: new AbortController().signal, connectMs: 5_000, headersMs: 5_000 }
const sent = async (method: string, headers: Record<string, string>, body: string | null) => {
  const response = await dial({ method, url: `http://127.0.0.1:${server.port}/`, headers, body }, limits)
  return JSON.parse(await response.text(10_000)) as Record<string, string | null>
}

test('many headers to one place, the same object again and again, other methods and bodies', async () => {
  const all = Array.from({ length: 7 }, (_, i) => ({ 'x-label': `label ${i}` }))
  for (const round of [1, 2]) {
    for (const headers of all) {
      const body = `é${'x'.repeat(round)}`
      const post = await sent('POST', headers, body)
      expect(post).toMatchObject({ method: 'POST', label: headers['x-label'], encoding: 'identity', body })
      expect(post.length).toBe(String(Buffer.byteLength(body)))
      expect(await sent('PUT', headers, '')).toMatchObject({ method: 'PUT', label: headers['x-label'], length: '0' })
      expect(await sent('GET', headers, null)).toMatchObject({ method: 'GET', label: headers['x-label'], length: null })
    }
  }
})

test('headers that cannot be sent are refused each time', async () => {
  const headers = { 'x-label': 'two\r\nlines' }
  for (let turn = 0; turn < 2; turn++) await expect(sent('POST', headers, '')).rejects.toThrow('cannot be sent')
})
