// What failures are tried on, and what every one of them must look like.
import { expect } from 'bun:test'
import { KINDS } from '../../src/providers/kinds.ts'
import { ERRORS, type ErrorCode } from '../../src/wire/errors.ts'
import { entry, KEY, policyRow, testGateway } from '../inference/gateway.ts'
import { type Listener, serveApp } from '../services/serve-app.ts'
import { type Behaviour, startUpstream } from '../services/upstream.ts'

export const SECRET = 'topsecretcredential-0123'
export const ask = { model: 'small', messages: [{ role: 'user', content: 'hi' }] }

export interface Wanted {
  code: ErrorCode
  status?: number
  param?: string | null
  upstreamStatus?: number
  retryAfter?: string
  retryable?: boolean
  /** The provider that failed; null: none was called. */
  provider?: string | null
}

export const failing = (
  status: number,
  error: Record<string, unknown>,
  headers: Record<string, string> = {},
): Behaviour => ({
  status,
  headers,
  body: JSON.stringify({ error: { message: 'scripted', type: null, param: null, code: null, ...error } }),
})

/** A gateway on a socket with models that fail in every way, which a test file closes. */
export const startFailing = (listener: Listener) => {
  const upstream = startUpstream()
  const openai = (fields: Parameters<typeof entry>[0]) =>
    entry({ kind: 'openai', baseUrl: upstream.baseUrl, secret: SECRET, ...fields })
  const gateway = testGateway({
    kinds: [...KINDS.values()],
    entries: [
      openai({}),
      openai({ name: 'chatonly', capabilities: ['chat'] }),
      openai({ name: 'off', unroutable: 'disabled' }),
      openai({ name: 'refusing', baseUrl: 'http://127.0.0.1:1/v1' }),
      openai({ name: 'nameless', baseUrl: 'http://nowhere.invalid/v1' }),
      openai({ name: 'plaintext', baseUrl: upstream.baseUrl.replace('http:', 'https:') }),
      openai({ name: 'metadata', baseUrl: 'http://169.254.169.254/v1' }),
    ],
    policies: [
      policyRow({ retry: { attempts: 0 } }),
      policyRow({ id: 'pol_hasty', name: 'hasty', retry: { attempts: 0 }, timeouts: { total_ms: 80 } }),
    ],
  })
  const server = serveApp(gateway.app, listener)

  /** The text of all answers, for the scan at the end. */
  const said: string[] = []

  const expectFailure = async (response: Response, wanted: Wanted): Promise<void> => {
    const { code, status = ERRORS[code].status, retryable = ERRORS[code].retryable, provider = null } = wanted
    const text = await response.text()
    said.push(text, JSON.stringify([...response.headers]))
    const body = JSON.parse(text) as { error: Record<string, unknown>; gateway: Record<string, unknown> }
    expect([response.status, body.error.code]).toEqual([status, code])
    expect(Object.keys(body)).toEqual(['error', 'gateway'])
    expect(Object.keys(body.error)).toEqual(['message', 'type', 'param', 'code', 'details'])
    expect(body.error.message).toBeString()
    expect(body.error.message).not.toBe('')
    expect(body.error.type).toBe(ERRORS[code].type)
    if (wanted.param !== undefined) expect(body.error.param).toBe(wanted.param)
    expect(Object.keys(body.gateway).slice(0, 8)).toEqual([
      'request_id',
      'provider',
      'requested_model',
      'routed_model',
      'fallback_used',
      'cache_hit',
      'latency_ms',
      'estimated_cost_usd',
    ])
    const { headers } = response
    expect(headers.get('content-type')).toStartWith('application/json')
    expect(headers.get('x-request-id')).toBe(body.gateway.request_id as string)
    expect(headers.get('x-trace-id')).toMatch(/^[0-9a-f]{32}$/)
    expect(headers.get('x-gateway-retryable')).toBe(String(retryable))
    expect(headers.get('x-should-retry')).toBe(String(retryable))
    expect(headers.get('x-gateway-upstream-status')).toBe(
      wanted.upstreamStatus === undefined ? null : String(wanted.upstreamStatus),
    )
    expect(headers.get('retry-after')).toBe(wanted.retryAfter ?? null)
    expect([body.gateway.provider, headers.get('x-gateway-provider')]).toEqual([provider, provider])
  }

  const post = (body: unknown, headers: Record<string, string> = {}, path = '/v1/chat/completions') =>
    fetch(new URL(path, `http://127.0.0.1:${server.port}`), {
      method: 'POST',
      body: typeof body === 'string' ? body : JSON.stringify(body),
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', ...headers },
    })

  /** What stands in no answer. */
  const forbidden = [
    SECRET,
    '127.0.0.1',
    String(upstream.port),
    '::1',
    'fe80',
    '2001:db8',
    'cluster.local',
    'db.internal',
    '169.254',
    'nowhere.invalid',
  ]

  return {
    gateway,
    server,
    upstream,
    openai,
    said,
    forbidden,
    expectFailure,
    post,
    reset() {
      upstream.behave({})
      gateway.spool.before = null
    },
    async close() {
      gateway.close()
      server.stop()
      await upstream.stop()
    },
  }
}
