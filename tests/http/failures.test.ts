// Every code of the table through a real gateway over sockets: its envelope, its headers, and no internals in it.
import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { KINDS } from '../../src/providers/kinds.ts'
import { ERRORS, type ErrorCode } from '../../src/wire/errors.ts'
import { framesOf, READ_KEY, testGateway } from '../inference/gateway.ts'
import { eventually } from '../services/eventually.ts'
import { EACH_LISTENER } from '../services/serve-app.ts'
import { ask, failing, SECRET, startFailing, type Wanted } from './failing-world.ts'

describe.each(EACH_LISTENER)('behind the %s listener', (listener) => {
  const { gateway, upstream, openai, said, forbidden, expectFailure, post, reset, close } = startFailing(listener)
  beforeEach(reset)
  afterAll(close)

  // docs/behaviour.md: "Errors"
  describe('every code of the table', () => {
    const cases: [code: ErrorCode, how: string, act: () => Promise<Response>, wanted?: Partial<Wanted>][] = [
      ['invalid_request', 'by the gateway', () => post({ ...ask, top_k: 0 }), { param: 'top_k' }],
      [
        'invalid_request',
        'by the provider',
        () => fails(400, { param: 'messages[0].name' }),
        { param: 'messages[0].name', upstreamStatus: 400, provider: 'alpha' },
      ],
      [
        'invalid_request',
        'for want of a capability',
        () => post({ ...ask, model: 'chatonly', seed: 1 }),
        { param: 'seed' },
      ],
      [
        'context_length_exceeded',
        'by the provider',
        () => fails(400, { code: 'context_length_exceeded' }),
        { upstreamStatus: 400, provider: 'alpha' },
      ],
      ['authentication_error', 'without a key', () => post(ask, { authorization: '' })],
      [
        'authentication_error',
        'by the provider',
        () => fails(401, { message: `Incorrect API key provided: ${SECRET}` }),
        { upstreamStatus: 401, provider: 'alpha' },
      ],
      ['permission_error', 'without the scope', () => post(ask, { authorization: `Bearer ${READ_KEY}` })],
      ['permission_error', 'by the provider', () => fails(403, {}), { upstreamStatus: 403, provider: 'alpha' }],
      ['not_found', 'an unknown model', () => post({ ...ask, model: 'nope' }), { param: 'model' }],
      [
        'not_found',
        'an unknown policy',
        () => post(ask, { 'x-gateway-policy': 'nope' }),
        { param: 'X-Gateway-Policy' },
      ],
      ['not_found', 'an unknown path', () => post(ask, {}, '/v1/chat')],
      ['not_found', 'by the provider', () => fails(404, {}), { upstreamStatus: 404, provider: 'alpha' }],
      [
        'content_filtered',
        'by the provider',
        () => fails(400, { code: 'content_filter' }),
        { upstreamStatus: 400, provider: 'alpha' },
      ],
      [
        'rate_limited',
        'by the provider',
        () => fails(429, {}, { 'retry-after': '7' }),
        { upstreamStatus: 429, retryAfter: '7', provider: 'alpha' },
      ],
      [
        'quota_exceeded',
        'by the gateway',
        () => post(ask, { 'x-gateway-max-cost-usd': '0' }),
        { param: 'X-Gateway-Max-Cost-USD' },
      ],
      ['quota_exceeded', 'by the provider', () => fails(402, {}), { upstreamStatus: 402, provider: 'alpha' }],
      [
        'quota_exceeded',
        'as a 429 of the provider',
        () => fails(429, { code: 'insufficient_quota' }),
        { upstreamStatus: 429, provider: 'alpha' },
      ],
      ['timeout', 'of the whole request', () => hanging(), { provider: 'alpha' }],
      ['upstream_error', 'a 500', () => fails(500, {}), { upstreamStatus: 500, provider: 'alpha' }],
      ['upstream_error', 'a 503', () => fails(503, {}), { upstreamStatus: 503, provider: 'alpha' }],
      ['upstream_error', 'no answer at all', () => answers('<html>oops</html>'), { provider: 'alpha' }],
      ['upstream_error', 'refused', () => post({ ...ask, model: 'refusing' }), { provider: 'alpha' }],
      ['upstream_error', 'no such host', () => post({ ...ask, model: 'nameless' }), { provider: 'alpha' }],
      ['upstream_error', 'no TLS', () => post({ ...ask, model: 'plaintext' }), { provider: 'alpha' }],
      [
        'upstream_error',
        'an address that is never called',
        () => post({ ...ask, model: 'metadata' }),
        { provider: 'alpha' },
      ],
      ['provider_unavailable', 'a disabled model', () => post({ ...ask, model: 'off' })],
      ['internal_error', 'an outcome that cannot be written', () => unwritten(), { provider: 'alpha' }],
      ['not_implemented', 'a planned endpoint', () => post({}, {}, '/v1/embeddings')],
    ]
    const fails = (status: number, error: Record<string, unknown>, headers?: Record<string, string>) => {
      upstream.behave(failing(status, error, headers))
      return post(ask, { 'x-gateway-debug': 'true' })
    }
    const hanging = () => {
      upstream.behave({ delayMs: Number.POSITIVE_INFINITY })
      return post(ask, { 'x-gateway-policy': 'hasty' })
    }
    const answers = (body: string) => {
      upstream.behave({ body })
      return post(ask)
    }
    const unwritten = () => {
      gateway.spool.before = (type) => {
        if (type === 'request.settled') throw new Error(`EIO ${SECRET}`)
      }
      return post(ask)
    }

    test.each(cases.map(([code, how, act, wanted = {}]) => [code, how, act, wanted] as const))(
      '%s: %s',
      async (code, _, act, wanted) => {
        await expectFailure(await act(), { code, ...wanted })
      },
    )

    test('request_canceled, which its client does not see', async () => {
      upstream.behave({ delayMs: Number.POSITIVE_INFINITY })
      const leaving = new AbortController()
      const answered = gateway.chat(ask, {}, leaving.signal)
      await eventually('the upstream is asked', () => upstream.received.length > 0)
      leaving.abort()
      await expectFailure(await answered, { code: 'request_canceled', provider: 'alpha' })
    })

    test('none was forgotten', () => {
      const tried = new Set<string>([...cases.map(([code]) => code), 'request_canceled'])
      expect(Object.keys(ERRORS).filter((code) => !tried.has(code))).toEqual([])
    })
  })

  describe('in a stream', () => {
    const streamed = { ...ask, stream: true, stream_options: { include_usage: true } }

    test('before the first word a failure is the envelope', async () => {
      upstream.behave(failing(503, { message: `no route to ${upstream.origin}` }))
      await expectFailure(await post(streamed), { code: 'upstream_error', upstreamStatus: 503, provider: 'alpha' })
    })

    test('after it, an error frame with the same members, before [DONE]', async () => {
      upstream.behave({ stopAfter: 2, stop: 'error', chunkDelayMs: 2 })
      const frames = await framesOf(await post(streamed))
      said.push(JSON.stringify(frames))
      expect(frames.at(-1)).toBe('[DONE]')
      expect(frames.at(-2)).toMatchObject({
        event: 'error',
        data: {
          error: { code: 'upstream_error', type: 'upstream_error', param: null },
          gateway: { provider: 'alpha' },
        },
      })
    })
  })

  test('a provider of any name is named in the header', async () => {
    const foreign = testGateway({
      kinds: [...KINDS.values()],
      entries: [
        openai({ provider: 'プロバイダ' }),
        openai({ name: 'off', provider: 'zwei\nzeilen', baseUrl: 'http://127.0.0.1:1' }),
      ],
    })
    for (const stream of [false, true]) {
      const response = await foreign.chat({ ...ask, stream })
      expect([response.status, response.headers.get('x-gateway-provider')]).toEqual([
        200,
        encodeURIComponent('プロバイダ'),
      ])
      expect(await response.text()).toContain('Hello')
    }
    const failed = await foreign.chat({ ...ask, model: 'off' })
    expect([failed.status, failed.headers.get('x-gateway-provider')]).toEqual([502, 'zwei%0Azeilen'])
    foreign.close()
  })

  describe('nothing that is nobody’s business', () => {
    /** Ids are random: what is looked for may stand in one by chance. */
    const withoutIds = (text: string) => text.replaceAll(/[\da-f]{8}-[\da-f]{4}-[\da-f-]{22}|[\da-f]{32,}/g, '')
    const leaked = (text: string) => forbidden.filter((word) => withoutIds(text).includes(word))

    const leaks = [
      `connect to ${upstream.baseUrl} failed`,
      `upstream 127.0.0.1:${upstream.port} and localhost:${upstream.port} are down`,
      `port ${upstream.port} on [::1]:${upstream.port}, fe80::1 and 2001:db8:0:0:0:0:0:1`,
      `key ${SECRET} is not valid for vllm-7.models.svc.cluster.local:8000 or db.internal`,
      `Authorization: Bearer ${SECRET}`,
    ]

    test.each(leaks)('S19: of what a provider says: %s', async (message) => {
      for (const status of [400, 403, 404, 429, 500, 503]) {
        upstream.behave(failing(status, { message, param: message }))
        const response = await post(ask, { 'x-gateway-debug': 'true' })
        const text = `${await response.text()}${JSON.stringify([...response.headers])}`
        said.push(text)
        expect(leaked(text)).toEqual([])
      }
      upstream.behave({ body: `data: ${JSON.stringify({ error: { message, code: 500 } })}\n\n` })
      const frames = await (await post({ ...ask, stream: true })).text()
      expect(leaked(frames)).toEqual([])
    })

    test('in any answer of this file', () => {
      expect(said.length).toBeGreaterThan(80)
      const found = said.flatMap((text) => leaked(text).map((word) => [word, text]))
      expect(found).toEqual([])
    })
  })
})
