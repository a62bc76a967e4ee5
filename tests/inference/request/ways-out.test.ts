// Corners of an attempt in which somebody else acts between two of its steps.
import { expect, test } from 'bun:test'
import { candidatesFor } from '../../../src/inference/plan/candidates.ts'
import { BUILT_IN } from '../../../src/inference/plan/policies.ts'
import type { Dial, DialResponse } from '../../../src/lib/http-client/dial.ts'
import { catalogueOf, entry, framesOf, policyRow, testGateway } from '../gateway.ts'

const ASK = { model: 'small', messages: [{ role: 'user', content: 'hi' }] }
const answer = (status: number, text: string, body: DialResponse['body'] = null): DialResponse => ({
  status,
  headers: new Headers(),
  body,
  text: async () => text,
})
const WHOLE = JSON.stringify({ choices: [{ message: { content: 'Hello' }, finish_reason: 'stop' }] })

test('a repeat that finds its place taken makes way only where the failure lets another take over', async () => {
  const called: string[] = []
  const occupied = Promise.withResolvers<void>()
  let others: Promise<Response> | null = null
  const dial: Dial = async ({ url }) => {
    called.push(new URL(url).hostname)
    if (called.length > 1) {
      await occupied.promise
      return answer(200, WHOLE)
    }
    // While the first request waits to repeat, a second one takes the only place there is.
    setImmediate(() => {
      others = gateway.chat(ASK)
    })
    return answer(500, '{"error":{"message":"no"}}')
  }
  const gateway = testGateway({
    entries: [
      entry({ provider: 'alpha', baseUrl: 'http://alpha.test/v1', priority: 1, maxConcurrency: 1 }),
      entry({ provider: 'beta', baseUrl: 'http://beta.test/v1', priority: 2 }),
    ],
    policies: [
      policyRow({
        strategy: 'priority',
        fallback: { on: ['timeout'] },
        retry: { attempts: 1, backoff_initial_ms: 100, backoff_max_ms: 100 },
      }),
    ],
    dial,
  })
  const response = await gateway.chat(ASK)
  occupied.resolve()
  expect(response.status).toBe(502)
  expect((await others!).status).toBe(200)
  expect(called).toEqual(['alpha.test', 'alpha.test'])
  expect(gateway.spool.admitted()).toHaveLength(gateway.spool.settled().length)
  gateway.close()
})

test('a client that leaves while the first content is under way is settled, though what came can still be read', async () => {
  const leaving = new AbortController()
  const frame = `data: ${JSON.stringify({ choices: [{ delta: { content: 'Hello' } }] })}\n\n`
  const dial: Dial = async (_request, { signal }) => {
    const canceled = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    const read = async () => {
      leaving.abort()
      await canceled
      return { done: false, value: Buffer.from(frame) }
    }
    return { ...answer(200, ''), reader: () => ({ read, cancel: async () => {} }) }
  }
  const gateway = testGateway({ dial })
  await gateway.chat({ ...ASK, stream: true }, {}, leaving.signal).catch(() => null)
  expect(await gateway.spool.untilSettled()).toMatchObject([{ outcome: 'canceled' }])
  expect([...gateway.health.candidates()].map(({ inFlight }) => inFlight)).toEqual([0])
  gateway.close()
})

test('what came together with the error that ends a stream is shown before it, however the bytes were cut', async () => {
  const chunk = (content: string) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`
  const error = `data: ${JSON.stringify({ error: { message: 'overloaded' } })}\n\n`
  const said = async (pieces: string[]) => {
    const read = async () => {
      const piece = pieces.shift()
      return piece === undefined ? { done: true } : { done: false, value: Buffer.from(piece) }
    }
    const dial: Dial = async () => ({ ...answer(200, ''), reader: () => ({ read, cancel: async () => {} }) })
    const gateway = testGateway({ dial })
    const frames = await framesOf(await gateway.chat({ ...ASK, stream: true }))
    const [settled] = gateway.spool.settled()
    gateway.close()
    const texts = frames.flatMap((frame) => (frame as { choices?: { delta: { content: string } }[] }).choices ?? [])
    expect(frames.at(-2)).toMatchObject({ event: 'error', data: { error: { message: 'overloaded' } } })
    return { text: texts.map(({ delta }) => delta.content).join(''), tokens: settled!.completion_tokens }
  }
  const apart = await said([chunk('one '), chunk('two '), chunk('three'), error])
  expect(apart.text).toBe('one two three')
  expect(await said([chunk('one '), chunk('two ') + chunk('three') + error])).toEqual(apart)
})

test('the candidates of a model are remembered once, however clients spell its name', () => {
  const catalogue = catalogueOf([entry()])
  expect(candidatesFor('SMALL', 'usual', BUILT_IN, catalogue)).toBe(
    candidatesFor('small', 'usual', BUILT_IN, catalogue),
  )
})
