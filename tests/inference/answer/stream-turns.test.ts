// Bytes of an upstream are forwarded in the same turn of the event loop in which they arrive: no promise lies between
// the two, while the client reads.
import { expect, test } from 'bun:test'
import { ClientStream } from '../../../src/inference/answer/client-stream.ts'
import { UpstreamStream } from '../../../src/inference/attempt/upstream-stream.ts'
import { readIntent } from '../../../src/inference/intent/intent.ts'
import type { Plan } from '../../../src/inference/plan/plan.ts'
import { BUILT_IN } from '../../../src/inference/plan/policies.ts'
import type { InferenceDeps } from '../../../src/inference/request/deps.ts'
import { Exchange } from '../../../src/inference/request/exchange.ts'
import type { Called } from '../../../src/inference/request/progress.ts'
import { Cancellation } from '../../../src/lib/event-loop/cancellation.ts'
import type { ByteReader } from '../../../src/lib/http-client/dial.ts'
import { HttpExchange } from '../../../src/lib/http-client/exchange.ts'
import type { AnswerSink } from '../../../src/lib/http-server/answer.ts'
import { openaiStream } from '../../../src/providers/openai/stream.ts'
import { entry } from '../gateway.ts'

const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n'
const chunk = (content: string) =>
  `data: ${JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 1, model: 'small', choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`
const FINISH = chunk('').replace('"finish_reason":null', '"finish_reason":"stop"')
const BODY = { model: 'small', stream: true, messages: [{ role: 'user' as const, content: 'hello' }] }

/** An upstream connection, the exchange on it, and what it did to its socket. */
const upstream = () => {
  const said: string[] = []
  const carrier = {
    pause: () => void said.push('pause'),
    resume: () => void said.push('resume'),
    finished: () => void said.push('finished'),
    destroy: () => void said.push('destroy'),
  }
  const signal = new Cancellation()
  const limits = { signal, connectMs: 1_000, headersMs: 1_000 }
  const http = new HttpExchange('POST', carrier, limits, { add: () => {}, delete: () => {} } as never)
  /** All that comes in a turn. */
  const send = (text: string) => {
    http.receive(Buffer.from(text))
    http.deliver()
  }
  return { http, said, signal, send }
}

/** A stream whose first word has come, on its way to a client. */
const relay = (reader: ByteReader, flushes: () => number | Promise<number> = () => 0) => {
  const exchange = new Exchange({ id: 'req_1', requestId: 'req_1', traceId: 'a'.repeat(32), atMs: 0, startedMs: 0 })
  const intent = readIntent(JSON.stringify(BODY), BODY, new Headers())
  exchange.entry = entry()
  exchange.intent = intent
  exchange.plan = { policy: BUILT_IN, primary: null } as unknown as Plan
  const source = new UpstreamStream(reader, openaiStream(), undefined, true)
  source.shown = true
  const observed: string[] = []
  const deps = { observe: () => void observed.push('settled') } as unknown as InferenceDeps
  const answer = { stream: true, exchange: exchange as Called, parts: source.ready()!, source } as const
  const stream = new ClientStream(answer, deps, { leave() {} })
  const written: string[] = []
  const sink: AnswerSink = {
    write: (text) => written.push(text),
    flush: flushes,
    close: () => void written.push('closed'),
  }
  return { exchange, stream, source, written, observed, sink }
}

test('a chunk is with the client when those who wait for what came in this turn are told', async () => {
  const { http, send, said } = upstream()
  send(HEAD + chunk('one'))
  const { stream, written, observed, sink } = relay(http)
  const done = stream.run(sink)
  expect(written).toHaveLength(1)
  send(chunk('two'))
  expect(written).toEqual([expect.stringContaining('"one"'), chunk('two')])
  // Half a frame is none.
  send(chunk('three').slice(0, 20))
  expect(written).toHaveLength(2)
  send(chunk('three').slice(20))
  expect(written[2]).toBe(chunk('three'))
  send(`${FINISH}data: [DONE]\n\n`)
  // Its end is not, before the outcome is written.
  expect([written.length, observed]).toEqual([3, []])
  http.closed(false)
  await done
  expect(observed).toEqual(['settled'])
  expect(written.slice(3)).toEqual([`${FINISH}data: [DONE]\n\n`, 'closed'])
  expect(said).toEqual(['finished'])
})

test('while the client does not read, nothing is read for it; the upstream waits', async () => {
  const { http, send, said } = upstream()
  send(HEAD + chunk('one'))
  const waiting: ((size: number) => void)[] = []
  const flushes = () => new Promise<number>((resolve) => void waiting.push(resolve))
  const { stream, written, observed, sink, exchange } = relay(http, flushes)
  const done = stream.run(sink)
  send(chunk('two').repeat(1_000))
  expect(written).toHaveLength(1)
  expect(said).toEqual(['pause'])
  // Meanwhile, no deadline for the provider runs.
  expect(exchange.waitDeadlineMs).toBe(Number.POSITIVE_INFINITY)
  while (said.length === 1) {
    waiting.shift()!(0)
    await Promise.resolve()
    await Promise.resolve()
  }
  expect(said).toEqual(['pause', 'resume'])
  expect(written.slice(1).join('')).toBe(chunk('two').repeat(1_000))
  expect(exchange.waitDeadlineMs).toBeLessThan(Number.POSITIVE_INFINITY)
  stream.disconnected()
  await done
  expect(said).toEqual(['pause', 'resume', 'destroy'])
  // Letting go of the provider ends the stream too.
  await Promise.resolve()
  expect([observed.length, exchange.attempts.length]).toEqual([1, 1])
})

test('a provider that is cut off while it is waited for ends the stream, once', async () => {
  for (const end of ['broken', 'idle', 'total'] as const) {
    const { http, send, signal } = upstream()
    send(HEAD + chunk('one'))
    const { stream, written, observed, sink, exchange } = relay(http)
    signal.addEventListener('abort', http)
    const done = stream.run(sink)
    if (end === 'broken') http.closed(true)
    else if (end === 'idle') {
      exchange.endWait()
      signal.abort()
    } else {
      exchange.ended = 'total'
      signal.abort()
      exchange.onEnd?.()
    }
    await done
    expect([end, observed.length, written.at(-1)]).toEqual([end, 1, 'closed'])
    expect(written.at(-2)).toEndWith('data: [DONE]\n\n')
  }
})

test('a body that is read by promises goes the same way, and so does its failure', async () => {
  const pieces = [chunk('two'), chunk('three').slice(0, 30), chunk('three').slice(30)]
  const reader = (fails: boolean): ByteReader => {
    const left = [...pieces, ...(fails ? [] : [`${FINISH}data: [DONE]\n\n`])]
    return {
      read: async () => {
        const next = left.shift()
        if (next === undefined && fails) throw new Error('reset')
        return { done: next === undefined, value: next === undefined ? undefined : Buffer.from(next) }
      },
      cancel: async () => {},
    }
  }
  const read = async (source: UpstreamStream) => {
    let text = ''
    for (let parts = await source.next(); parts !== null; parts = await source.next())
      for (const { frames, json } of parts) text += frames ?? `data: ${json}\n\n`
    return text
  }
  const source = (fails: boolean) => new UpstreamStream(reader(fails), openaiStream(), undefined, true)
  expect(await read(source(false))).toBe(
    `${chunk('two').replace('"content"', '"role":"assistant","content"')}${chunk('three')}${FINISH}`,
  )
  await expect(read(source(true))).rejects.toThrow('reset')
})
