// Kinds and dialer against a real upstream: what is sent arrives, what comes back is read.
import { afterAll, describe, expect, test } from 'bun:test'
import { createDialer } from '../../src/lib/http-client/dialer.ts'
import { createSseParser } from '../../src/lib/text/sse.ts'
import { kindOf } from '../../src/providers/kinds.ts'
import { OPENAI_ROWS } from '../../src/providers/openai/rows.ts'
import type { StreamPart } from '../../src/providers/port.ts'
import { startUpstream } from '../services/upstream.ts'

const upstream = startUpstream()
const { dial, close } = createDialer({ allowPrivate: true })
afterAll(async () => {
  close()
  await upstream.stop()
})

const limits = { signal: new AbortController().signal, connectMs: 5_000, headersMs: 5_000 }
const ask = async (name: string, body: Record<string, unknown>) => {
  const kind = kindOf(name)!
  const call = { raw: JSON.stringify(body), body, stream: body.stream === true, capabilities: [] }
  const target = {
    baseUrl: upstream.baseUrl,
    secret: 'sk-test',
    upstreamModel: 'fake-small',
    options: {},
    maxOutputTokens: 100,
    usageOnStream: true,
  }
  const response = await dial(kind.request(call, target), limits)
  if (response.status !== 200) throw kind.failure(response.status, await response.text(65_536), response.headers)
  return { kind, response }
}
const stream = async (name: string, body: Record<string, unknown> = {}) => {
  const { kind, response } = await ask(name, {
    model: 'x',
    messages: [{ role: 'user', content: 'hi' }],
    stream: true,
    ...body,
  })
  const [parser, decoder] = [createSseParser(), kind.stream()]
  const parts: StreamPart[] = []
  for await (const bytes of response.body!) for (const event of parser.push(bytes)) parts.push(...decoder.push(event))
  for (const event of parser.end()) parts.push(...decoder.push(event))
  parts.push(...decoder.end())
  return {
    text: parts.map(({ text }) => text).join(''),
    tools: parts.flatMap(({ toolNames }) => toolNames),
    tokens: parts.at(-1)?.usage?.completionTokens,
  }
}

for (const name of [...OPENAI_ROWS.map(({ kind }) => kind), 'anthropic'])
  describe(name, () => {
    const row = OPENAI_ROWS.find(({ kind }) => kind === name)

    test('JSON', async () => {
      const { kind, response } = await ask(name, { model: 'x', messages: [{ role: 'user', content: 'hi' }] })
      expect(kind.response(await response.text(65_536))).toMatchObject({
        content: 'Hello from the fake upstream, which is on loopback.',
        finishReason: 'stop',
        usage: { promptTokens: 11, completionTokens: 7 },
      })
      expect(upstream.received.at(-1)!.body).toMatchObject({ model: 'fake-small' })
    })

    test('streams: text, tools, an end that is none, a cut, an error, a status', async () => {
      expect(await stream(name)).toEqual({
        text: 'Hello from the fake upstream, which is on loopback.',
        tools: [],
        // The fake upstream reports usage when it is asked; these kinds do so unasked.
        tokens: row?.request?.usageAlways ? undefined : 7,
      })
      upstream.next({ tool: { name: 'look', arguments: '{"a":1}' } })
      expect(await stream(name)).toMatchObject({ text: '', tools: ['look'] })
      for (const stop of ['end', 'error'] as const) {
        upstream.next({ stopAfter: 2, stop })
        await expect(stream(name)).rejects.toMatchObject({ code: 'upstream_error' })
      }
      upstream.next({ stopAfter: 2, stop: 'cut' })
      await expect(stream(name)).rejects.toMatchObject({ kind: 'reset' })
      upstream.next({ status: 429, headers: { 'retry-after': '3' } })
      await expect(stream(name)).rejects.toMatchObject({ code: 'rate_limited', retryAfterS: 3 })
    })

    const listing = row?.listing
    // The fake upstream lists at the usual place, in the usual shape.
    if (listing === null || listing?.url !== undefined) return
    test('lists models', async () => {
      const kind = kindOf(name)!
      const target = {
        baseUrl: upstream.baseUrl,
        secret: 'sk-test',
        upstreamModel: '',
        options: {},
        maxOutputTokens: null,
        usageOnStream: false,
      }
      const response = await dial(kind.listing!.request(target), limits)
      expect(kind.listing!.read(await response.text(65_536)).map((model) => model.name)).toEqual([
        'fake-small',
        'fake-large',
      ])
    })
  })
