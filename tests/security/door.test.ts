// Bytes that no HTTP client would send: none of them grants access, and no part of them is taken for a second request.
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { entry, KEY, testGateway } from '../inference/gateway.ts'
import { EACH_LISTENER, serveApp } from '../services/serve-app.ts'
import { startUpstream } from '../services/upstream.ts'
import { exchange, statusesIn } from './raw-client.ts'

const OTHER_KEY = 'gw_live_otherotherotherotherotherotherotherother'
describe.each(EACH_LISTENER)('behind the %s listener', (listener) => {
  const upstream = startUpstream()
  const gateway = testGateway({
    entries: [entry({ baseUrl: upstream.baseUrl })],
    keys: { [OTHER_KEY]: { id: 'key_other', tenantId: 'ten_2' } },
  })
  const server = serveApp(gateway.app, listener)
  afterAll(async () => {
    gateway.close()
    server.stop()
    await upstream.stop()
  })
  beforeEach(() => {
    upstream.received.length = 0
  })

  const ASK = JSON.stringify({ model: 'small', messages: [{ role: 'user', content: 'hi' }] })
  const AUTHORISED = `Authorization: Bearer ${KEY}`
  const JSON_TYPE = 'Content-Type: application/json'
  /** A chat completion with these lines in its head. */
  const chat = (lines: readonly string[], body = ASK, path = '/v1/chat/completions') =>
    [`POST ${path} HTTP/1.1`, 'Connection: close', ...lines, '', body].join('\r\n')
  const lengthOf = (body = ASK) => `Content-Length: ${body.length}`
  const statusOf = async (request: string) => statusesIn(await exchange(server.port, request))

  // docs/behaviour.md: "Authentication"
  test('S11: of two credentials, or one that can be read in two ways, none is taken', async () => {
    const known = ['Host: gw', JSON_TYPE, lengthOf()]
    expect(await statusOf(chat([...known, AUTHORISED]))).toEqual([200])
    expect(await statusOf(chat([...known, `authorization:bearer ${KEY}`]))).toEqual([200])
    const ambiguous: readonly (readonly string[])[] = [
      [AUTHORISED, `Authorization: Bearer ${OTHER_KEY}`],
      [AUTHORISED, AUTHORISED],
      [`Authorization: Bearer ${KEY}, Bearer ${OTHER_KEY}`],
      [`Authorization: Bearer ${KEY} ${OTHER_KEY}`],
      [`Authorization: Bearer ${KEY};`],
      [`Authorization: Bearer\t${KEY}`],
      [`Authorization: Bearer ${KEY}\t${OTHER_KEY}`],
      [`Authorization: Bearer ${KEY},`],
      [`Authorization: Basic ${btoa(`${KEY}:`)}`],
      [`Authorization: ${KEY}`],
      [`Authorization: Bearer`],
      [`X-Api-Key: ${KEY}`],
      [`Cookie: gateway_session=${KEY}`],
    ]
    for (const lines of ambiguous) expect([lines, await statusOf(chat([...known, ...lines]))]).toEqual([lines, [401]])
    expect(upstream.received).toHaveLength(2)
  })

  test('S11: a request that names two hosts is refused wherever it goes', async () => {
    const twice = [AUTHORISED, JSON_TYPE, lengthOf(), 'Host: gw', 'Host: other']
    expect(await statusOf(chat(twice))).toEqual([400])
    expect(await statusOf(chat(['Host: gw, other', AUTHORISED, JSON_TYPE, lengthOf()]))).toEqual([400])
    expect(await statusOf('GET /health HTTP/1.1\r\nHost: gw\r\nHost: gw\r\nConnection: close\r\n\r\n')).toEqual([400])
    expect(await exchange(server.port, chat(twice))).toContain('"param":"host"')
  })

  test('S12: a path is authorised and served as one and the same: no spelling of it opens another door', async () => {
    const same = [
      '/v1/chat/completions',
      '/v1/chat/completions/',
      '/v1\\chat\\completions',
      '/x/../v1/chat/completions',
      '/v1/./chat/completions?a',
      '//v1/chat/completions',
      '/v1//chat/completions',
    ]
    const nothing = [
      '/v1/chat/completions;x',
      '/v1/chat/completions.',
      '/V1/chat/completions',
      '/v1/chat%2fcompletions',
      '/%76%31/chat/completions',
      '/v1/chat/completions%00',
      '/v1/chat/completions%20',
      '/v1/chat/completions#x',
      '/metrics/../v1/chat/completions%2f..',
      '/health;/v1/chat/completions',
      '/health/v1/chat/completions',
      '/..;/v1/chat/completions',
    ]
    for (const [paths, expected] of [
      [same, [401, 200]],
      [nothing, [404, 404]],
    ] as const)
      for (const path of paths) {
        const head = ['Host: gw', JSON_TYPE, lengthOf()]
        const [stranger] = await statusOf(chat(head, ASK, path))
        const [known] = await statusOf(chat([...head, AUTHORISED], ASK, path))
        expect([path, stranger, known]).toEqual([path, ...expected])
      }
    for (const path of [
      '/v1/models',
      '//v1/models',
      '/v1/./models',
      '/x/../v1/models',
      '/v1/models/..%2fmodels',
      '/v1/models?',
      '/v1/models#',
    ])
      expect([path, String(await statusOf(`GET ${path} HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n`))]).toEqual([
        path,
        expect.stringMatching(/^(400|401|404)$/),
      ])
  })

  // docs/behaviour.md: "Chat requests"
  test('S21: what a client names itself is cut to plain characters before it is shown, and cannot add a header', async () => {
    const known = ['Host: gw', JSON_TYPE, lengthOf(), AUTHORISED]
    const labels: readonly (readonly [string, RegExp])[] = [
      ['plain-1.2_3', /^plain-1\.2_3$/],
      ['<script>é"', /^script$/],
      ['a b\tc', /^abc$/],
      ['%0d%0aX-Evil: 1', /^0d0aX-Evil1$/],
      ['x'.repeat(5_000), /^x{128}$/],
      ['"><', /^req_/],
    ]
    for (const [label, shown] of labels) {
      const answer = await exchange(server.port, chat([...known, `X-Request-ID: ${label}`]))
      expect(answer).not.toMatch(/^x-evil:/im)
      expect(/^x-request-id: (.*)$/im.exec(answer)?.[1]?.trim()).toMatch(shown)
    }
    const unknown = JSON.stringify({ model: 'a\r\nX-Evil: 1\r\n\r\n<b>', messages: [{ role: 'user', content: 'hi' }] })
    const answer = await exchange(server.port, chat(['Host: gw', JSON_TYPE, lengthOf(unknown), AUTHORISED], unknown))
    expect(statusesIn(answer)).toEqual([404])
    expect(answer.split('\r\n\r\n')[0]).not.toMatch(/evil/i)
  })

  /** A second request, hidden in what comes before it: served, it would be answered. */
  const HIDDEN = `POST /v1/chat/completions HTTP/1.1\r\nHost: gw\r\n${AUTHORISED}\r\n${JSON_TYPE}\r\n${lengthOf()}\r\n\r\n${ASK}`
  const head = (lines: readonly string[]) =>
    `POST /v1/chat/completions HTTP/1.1\r\n${['Host: gw', AUTHORISED, JSON_TYPE, ...lines].join('\r\n')}\r\n\r\n`
  const chunked = (body: string) => `${head(['Transfer-Encoding: chunked'])}${body}`
  const SMUGGLED: Readonly<Record<string, string>> = {
    'length and chunked': `${head([`Content-Length: ${HIDDEN.length + 5}`, 'Transfer-Encoding: chunked'])}0\r\n\r\n${HIDDEN}`,
    'chunked and length': `${head(['Transfer-Encoding: chunked', 'Content-Length: 4'])}0\r\n\r\n${HIDDEN}`,
    'two lengths that differ': `${head(['Content-Length: 0', lengthOf()])}${ASK}${HIDDEN}`,
    'a list of lengths': `${head([`Content-Length: ${ASK.length}, ${ASK.length}`])}${ASK}`,
    'a signed length': `${head([`Content-Length: +${ASK.length}`])}${ASK}`,
    'a negative length': `${head(['Content-Length: -1'])}${ASK}`,
    'a length in hexadecimal': `${head(['Content-Length: 0x20'])}${ASK}`,
    'a length beyond every number': `${head(['Content-Length: 99999999999999999999'])}${ASK}`,
    'a length with a space in it': `${head(['Content-Length: 1 0'])}${ASK}`,
    'an unknown coding': `${head(['Transfer-Encoding: gzip'])}${ASK}`,
    'chunked, then another coding': `${head(['Transfer-Encoding: chunked, identity'])}0\r\n\r\n${HIDDEN}`,
    'chunked in disguise': `${head(['Transfer-Encoding: xchunked'])}0\r\n\r\n${HIDDEN}`,
    'a space before the colon': `${head(['Transfer-Encoding : chunked', lengthOf()])}${ASK}`,
    'a folded header': `${head(['X-A: 1\r\n Transfer-Encoding: chunked', lengthOf()])}${ASK}`,
    'a header that begins with a space': `POST /v1/chat/completions HTTP/1.1\r\n Host: gw\r\n\r\n`,
    'a bare line feed in the head': head([]).replaceAll('\r\n', '\n') + HIDDEN,
    'a bare carriage return': `${head(['X-A: 1\rTransfer-Encoding: chunked', lengthOf()])}${ASK}`,
    'a NUL in a value': `${head(['X-A: a\0b', lengthOf()])}${ASK}`,
    'a chunk size that is none': chunked(`zz\r\nab\r\n0\r\n\r\n`),
    'a negative chunk size': chunked(`-2\r\nab\r\n0\r\n\r\n`),
    'a chunk size beyond every number': chunked(`fffffffffffffffff\r\nab\r\n0\r\n\r\n`),
    'a chunk longer than it says': chunked(`2\r\nabcd\r\n0\r\n\r\n${HIDDEN}`),
    'a line feed in the extension of a chunk': chunked(`2;a\nb\r\n{}\r\n0\r\n\r\n${HIDDEN}`),
  }

  test.each(Object.entries(SMUGGLED))('S22: %s hides no second request', async (_, request) => {
    const received = await exchange(server.port, request)
    expect(received).toMatch(/^HTTP\/1\.1 (400|501|505) /)
    expect(statusesIn(received)).toHaveLength(1)
    expect(upstream.received).toHaveLength(0)
  })
})
