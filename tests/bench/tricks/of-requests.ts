// Tricks of a request's way through the gateway: its limits, what goes to the upstream and what goes to the client.

import { processLimits } from '../../../src/inference/limits/local.ts'
import type { LimitRequest } from '../../../src/inference/limits/port.ts'
import { headText } from '../../../src/lib/http-client/pool.ts'
import { ServerOutput } from '../../../src/lib/http-server/output.ts'
import { readHead } from '../../../src/lib/http-server/request-head.ts'
import { editMembers, setMember } from '../../../src/lib/json/edit.ts'
import { wholeText } from '../../../src/lib/text/text-pieces.ts'
import { type GatewayFacts, gatewayJson, withGateway, withGatewayPieces } from '../../../src/wire/gateway-block.ts'
import { answerOf } from '../fake-upstream.ts'
import type { Trick } from './trick.ts'

const MANY = 100

const rule = (scope: 'key' | 'tenant' | 'policy') =>
  ({ scope, subject: `${scope}:1`, rpm: 1e9, tpm: 1e12, maxParallel: 1e6 }) as const
const ask: LimitRequest = { id: 'req_1', rules: [rule('tenant'), rule('policy')], tokens: 100 }

const limits = (): Trick => {
  const own = processLimits(() => performance.now())
  const promised = { take: async () => own.take(ask) }
  return {
    name: 'limits of this process are answered without a promise',
    at: 'inference/limits/local.ts',
    unit: 'request',
    each: MANY,
    trick: () => {
      for (let i = 0; i < MANY; i++) {
        const held = own.take(ask)
        if (!(held instanceof Promise)) held.settle(90)
      }
    },
    plain: async () => {
      for (let i = 0; i < MANY; i++) (await promised.take()).settle(90)
    },
  }
}

const HEADERS = {
  authorization: `Bearer sk-${'x'.repeat(48)}`,
  'content-type': 'application/json',
  accept: 'application/json',
  'user-agent': 'gatelog',
}

const heads = (): Trick => {
  const destination = {
    ...{ secure: true, address: '192.0.2.1', port: 443, host: 'api.example.com', serverName: 'api.example.com' },
    ...{ path: '/v1/chat/completions', key: 'k', heads: [] },
  }
  const request = { method: 'POST', headers: HEADERS, body: null } as unknown as Parameters<typeof headText>[1]
  return {
    name: 'heads for the same headers object are put together once',
    at: 'lib/http-client/pool.ts',
    unit: 'request',
    each: MANY,
    trick: () => {
      for (let i = 0; i < MANY; i++) headText(destination, request)
    },
    plain: () => {
      for (let i = 0; i < MANY; i++) {
        destination.heads.length = 0
        headText(destination, request)
      }
    },
  }
}

const BODY = JSON.stringify({
  model: 'auto',
  messages: [{ role: 'user', content: 'x'.repeat(900) }],
  temperature: 0.2,
  max_tokens: 100,
  user: 'u-1',
})

const member = (): Trick => {
  let serial = 0
  const next = () => JSON.stringify(`model-${serial++ % 20}`)
  return {
    name: 'a member is set without a list of all members',
    at: 'lib/json/edit.ts',
    unit: 'request of 1 KB',
    each: MANY,
    trick: () => {
      for (let i = 0; i < MANY; i++) setMember(BODY, 'model', next(), 5)
    },
    plain: () => {
      for (let i = 0; i < MANY; i++) editMembers(BODY, new Map([['model', { do: 'set', json: next() }]]))
    },
  }
}

const ANSWER = answerOf(600)
const LINES = [
  'content-type: application/json\r\nx-gateway-request-id: ',
  'req_1',
  '\r\nx-ratelimit-remaining: ',
  17,
  '\r\n',
]
/** Texts of an answer are made for it: what is made once would be flat from the second time on. */
const facts = (serial: number, model: string): GatewayFacts => ({
  ...{ requestId: `req_019c0000-0000-7000-8000-${100_000_000_000 + serial}`, provider: 'openai' },
  ...{ requestedModel: 'auto', routedModel: model, fallbackUsed: false, cacheHit: false },
  ...{ latencyMs: 12 + (serial % 40), costNanoUsd: 123_000 + serial, debug: null },
})

const output = (): ServerOutput => {
  const out = new ServerOutput({ blocked: () => {}, drained: () => {} })
  const socket = { write: (_bytes: Uint8Array, _start: number, length: number) => length }
  out.opened(socket as unknown as Parameters<ServerOutput['opened']>[0])
  return out
}

const answers = (): Trick => {
  const out = output()
  let serial = 0
  const given = () => ({ answer: ANSWER, facts: facts(serial++, 'model-1') })
  return {
    name: 'an answer and its block go out in pieces, not as one text',
    at: 'lib/http-server/output.ts, lib/json/edit.ts, wire/gateway-block.ts',
    unit: 'answer of 1 KB',
    each: MANY,
    trick: () => {
      for (let i = 0; i < MANY; i++) {
        const { answer, facts } = given()
        out.whole(200, LINES, false, withGatewayPieces(answer, facts, ''))
      }
    },
    plain: () => {
      for (let i = 0; i < MANY; i++) {
        const { answer, facts } = given()
        out.whole(200, wholeText(LINES), false, withGateway(answer, gatewayJson(facts)))
      }
    },
  }
}

/** Of two clients, in turn. */
const headOf = (client: string): Buffer =>
  Buffer.from(
    [
      'POST /v1/chat/completions HTTP/1.1',
      'Host: 127.0.0.1:8080',
      `Authorization: Bearer gl_${client.repeat(40)}`,
      'Content-Type: application/json',
      'User-Agent: OpenAI/Python 2.1.0',
      'Accept: application/json',
      'Accept-Encoding: gzip, deflate',
      'X-Stainless-Lang: python',
      'Content-Length: 1024',
      '\r\n',
    ].join('\r\n'),
  )
const HEADS = [headOf('k'), headOf('m')]
/** The headers that are looked up while a request is served; two of them are present. */
const ASKED = ['authorization', 'x-api-key', 'content-type', 'x-gateway-debug', 'x-gateway-policy', 'traceparent']
const LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[\t ]*([\t\x20-\x7e]*)$/

/** The usual way: a text of it all, its lines, a map of its headers. It checks less than the reader of bytes does. */
const headersOf = (bytes: Buffer): Map<string, string> => {
  const [first, ...lines] = bytes.toString('latin1', 0, bytes.length - 4).split('\r\n')
  if (!/^[A-Z]+ \S+ HTTP\/1\.[01]$/.test(first!)) throw new Error('no request')
  const headers = new Map<string, string>()
  for (const line of lines) {
    const match = LINE.exec(line)
    if (match === null) throw new Error('no header')
    headers.set(match[1]!.toLowerCase(), match[2]!)
  }
  return headers
}

const readHeads = (): Trick => ({
  name: 'heads of requests are read from their bytes, texts made of what is asked for',
  at: 'lib/http-server/request-head.ts',
  unit: 'head of 8 headers',
  each: MANY,
  trick: () => {
    let found = 0
    for (let i = 0; i < MANY; i++) {
      const bytes = HEADS[i & 1]!
      const head = readHead(bytes, bytes.length - 4)
      for (const name of ASKED) if (head.get(name) !== null) found++
    }
    return found
  },
  plain: () => {
    let found = 0
    for (let i = 0; i < MANY; i++) {
      const headers = headersOf(HEADS[i & 1]!)
      for (const name of ASKED) if (headers.has(name)) found++
    }
    return found
  },
})

/** By the name that `--only` takes. */
export const OF_REQUESTS = { request_head: readHeads, limits, heads, member, answers }
