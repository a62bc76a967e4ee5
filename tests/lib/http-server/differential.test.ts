// The same handler behind the own server and behind that of the runtime: it sees the same requests, and its clients
// the same answers.

import { afterAll, expect, test } from 'bun:test'
import { Buffer } from 'node:buffer'
import fc from 'fast-check'
import { serveWithBun } from '../../../src/lib/http-server/bun-server.ts'
import type { Peers } from '../../../src/lib/http-server/server.ts'
import {
  answerOf,
  answersIn,
  connect,
  get,
  inChunks,
  isWhole,
  type RawAnswer,
  serving,
  stopServing,
} from './serving.ts'

/** What a handler sees, and an answer of the form that the request asks for. */
const handler = async (request: Request, peers: Peers): Promise<Response> => {
  const url = new URL(request.url)
  const body = Buffer.from(await request.bytes()).toString('hex')
  const headers = [...request.headers].sort(([a], [b]) => (a < b ? -1 : 1))
  const saw = JSON.stringify([
    request.method,
    url.host,
    url.pathname + url.search,
    headers,
    body,
    peers.requestIP(request)?.address,
  ])
  const form = request.headers.get('x-form') ?? 'text'
  const said = { status: form === 'status' ? 418 : 200, headers: { 'x-said': 'é', 'content-type': 'text/plain' } }
  if (form === 'none') return new Response(null, { ...said, status: 204, headers: { 'x-saw': saw } })
  if (form === 'bytes') return new Response(Buffer.from(saw), said)
  if (form === 'cookies') {
    const answer = new Response(saw, said)
    answer.headers.append('set-cookie', 'a=1')
    answer.headers.append('set-cookie', 'b=2')
    return answer
  }
  if (form !== 'stream') return new Response(saw, said)
  const pieces = [saw.slice(0, 10), saw.slice(10)]
  const pull = async (sink: ReadableStreamDefaultController<Uint8Array>) => {
    await Bun.sleep(0)
    const next = pieces.shift()
    if (next === undefined) sink.close()
    else sink.enqueue(Buffer.from(next))
  }
  return new Response(new ReadableStream({ pull }), said)
}

const theirs = serving({ fetch: handler }, {}, serveWithBun)
const ours = serving({ fetch: handler, hot: () => answerOf(500, 'never') })
afterAll(stopServing)

/** Those that say how the body comes are a server's own choice. */
const FRAMING = /^(content-length|transfer-encoding|connection)$/
const sayings = ({ status, headers, body }: RawAnswer) => ({
  status,
  headers: headers.filter(([name]) => !FRAMING.test(name)).sort(([a, x], [b, y]) => (a + x < b + y ? -1 : 1)),
  body,
})

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND', 'QUERY']
const PATHS = [
  '/',
  '/v1/models',
  '/a/../b',
  '//a',
  '/%41%2f',
  '/a b'.replace(' ', '%20'),
  '/%C3%A9',
  '/a;b=c',
  '/a\\b',
  '/"<>^`{}|',
]
const NAME = fc.constantFrom(
  'accept',
  'Authorization',
  'X-A',
  'x-a',
  'Cookie',
  'x_b',
  'x.c',
  'Content-Type',
  'Accept',
  'If-Match',
)
const VALUE = fc.string({ unit: fc.constantFrom(...'aZ0 ,;="\t\x21~\xe9'), maxLength: 10 })
const request = fc.record({
  method: fc.constantFrom(...METHODS),
  path: fc.constantFrom(...PATHS),
  query: fc.constantFrom('', '?', '?a=b&c', '?%C3%A9=a', '?a=b?c'),
  host: fc.constantFrom('a', 'gateway.example:8080', 'A.Example', '[::1]:80', '127.0.0.1'),
  headers: fc.array(fc.tuple(NAME, VALUE), { maxLength: 6 }),
  body: fc.option(fc.string({ unit: fc.constantFrom(...'a0\r\n\x00\xff'), maxLength: 60 })),
  size: fc.integer({ min: 0, max: 20 }),
  form: fc.constantFrom('text', 'bytes', 'stream', 'none', 'cookies', 'status'),
})

test('any request is seen and answered the same', async () => {
  const clients = await Promise.all([connect(theirs.port), connect(ours.port)])
  const methods: string[] = []
  let count = 0
  const before = [0, 0]
  await fc.assert(
    fc.asyncProperty(request, async ({ method, path, query, host, headers, body, size, form }) => {
      const lines = headers.map(([name, value]) => `${name}:${value}\r\n`).join('')
      const isBodiless = method === 'GET' || method === 'HEAD'
      const framing =
        isBodiless || body === null
          ? ''
          : size === 0
            ? `Content-Length: ${body.length}\r\n`
            : 'Transfer-Encoding: chunked\r\n'
      const sent = framing === '' ? '' : size === 0 ? body : inChunks(body!, size)
      const target = Buffer.from(path + query).toString('latin1')
      const text = `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\n${lines}X-Form: ${form}\r\n${framing}\r\n${sent}`
      methods.push(method)
      count++
      const [known, seen] = await Promise.all(
        clients.map(async (client, which) => {
          const from = before[which]!
          client.write(text)
          const all = await client.until((received) => isWhole(1, [method])(received.slice(from)))
          before[which] = all.length
          return sayings(answersIn(all.slice(from), [method])[0]!)
        }),
      )
      expect(seen).toEqual(known!)
    }),
    { numRuns: 400 },
  )
  expect(methods.length).toBe(count)
  for (const client of clients) client.leave()
}, 30_000)

test('a target that names its host, and HTTP/1.0, are seen the same', async () => {
  for (const text of [
    'GET http://a/x?y HTTP/1.1\r\nHost: a\r\n\r\n',
    'GET http://a?y HTTP/1.1\r\nHost: a\r\n\r\n',
    get('/x?y#z'),
  ]) {
    const answers: unknown[] = []
    for (const port of [theirs.port, ours.port]) {
      const client = await connect(port, text)
      answers.push(sayings(answersIn(await client.until(isWhole()))[0]!))
      client.leave()
    }
    expect(answers[1]).toEqual(answers[0])
  }
})
