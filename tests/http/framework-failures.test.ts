// What a framework or the wire would answer by itself is the envelope too.
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { KEY } from '../inference/gateway.ts'
import { EACH_LISTENER } from '../services/serve-app.ts'
import { startFailing } from './failing-world.ts'

describe.each(EACH_LISTENER)('behind the %s listener', (listener) => {
  const { server, said, forbidden, expectFailure, reset, close } = startFailing(listener)
  beforeEach(reset)
  afterAll(close)

  // docs/behaviour.md: "Errors"
  describe('what a framework or the wire would answer by itself', () => {
    const send = (method: string, path: string, init: RequestInit = {}) =>
      fetch(`http://127.0.0.1:${server.port}${path}`, {
        ...init,
        method,
        headers: { authorization: `Bearer ${KEY}`, ...(init.headers as Record<string, string> | undefined) },
      })
    const json = { 'content-type': 'application/json' }

    test.each([
      ['GET', '/v1/chat/completions', 'POST'],
      ['PATCH', '/v1/models', 'GET, HEAD'],
      ['DELETE', '/v1/models/a', 'GET, HEAD'],
      ['POST', '/health', 'GET, HEAD'],
      ['OPTIONS', '/v1/feedback', 'POST'],
    ])('%s %s is 405 and says what is allowed', async (method, path, allow) => {
      const response = await send(method, path)
      expect(response.headers.get('allow')).toBe(allow)
      await expectFailure(response, { code: 'invalid_request', status: 405 })
    })

    test.each([
      ['no JSON', '{"model":', 400, {}, null],
      ['a list', '[]', 400, {}, null],
      ['a text', '"x"', 400, {}, null],
      ['nothing', '', 400, {}, null],
      ['bytes that are no text', Buffer.from([0x7b, 0xff, 0x7d]), 400, {}, null],
      ['levels without end', `{"a":${'['.repeat(100)}${']'.repeat(100)}}`, 400, {}, 'a'],
      ['11 MiB', `{"a":"${'x'.repeat(11 * 1024 * 1024)}"}`, 413, {}, null],
      ['a form', 'a=1', 415, { 'content-type': 'application/x-www-form-urlencoded' }, 'Content-Type'],
      ['another alphabet', '{}', 415, { 'content-type': 'application/json; charset=utf-16' }, 'Content-Type'],
      ['what is compressed', '{}', 415, { 'content-encoding': 'gzip' }, 'Content-Encoding'],
      ['an encoding that does not exist', '{}', 415, { 'content-encoding': 'none/such' }, 'Content-Encoding'],
    ])('%s as a body', async (_, body, status, headers, param) => {
      const response = await send('POST', '/v1/chat/completions', { body, headers: { ...json, ...headers } })
      await expectFailure(response, { code: 'invalid_request', status, param })
    })

    test.each([
      '/v1/models/%00',
      '/v1/models/%F0%9F%98%80',
      `/v1/models/${'a'.repeat(4_000)}`,
      '/%2e%2e/%2e%2e/etc/passwd',
      '//evil.example/v1',
      '/v1//models/x/',
      '/?'.padEnd(4_000, 'x').replace('/', '/nope'),
      '/v1/chat/completions/',
      '/nope#fragment',
    ])('%s is 404', async (path) => {
      const response = await fetch(`http://127.0.0.1:${server.port}${path}`, {
        headers: { authorization: `Bearer ${KEY}` },
      })
      const status = path === '/v1/chat/completions/' ? 405 : 404
      await expectFailure(response, status === 405 ? { code: 'invalid_request', status } : { code: 'not_found' })
    })

    test('HEAD has the status and the headers of GET, and no body', async () => {
      for (const [path, status] of [
        ['/v1/models', 200],
        ['/nope', 404],
        ['/v1/chat/completions', 405],
      ] as const) {
        const response = await send('HEAD', path)
        expect([path, response.status, await response.text()]).toEqual([path, status, ''])
        expect(response.headers.get('x-request-id')).not.toBeNull()
      }
    })
  })

  test('no answer of this file shows internals', () => {
    expect(said.length).toBeGreaterThan(20)
    expect(said.flatMap((text) => forbidden.filter((word) => text.includes(word)))).toEqual([])
  })
})
