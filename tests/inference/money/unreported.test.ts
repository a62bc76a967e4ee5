// Usage that a provider does not report is estimated in full: all generated content is billed, in every part of the
// answer.
import { afterEach, describe, expect, test } from 'bun:test'
import { kindOf } from '../../../src/providers/kinds.ts'
import { type FaultServer, startFaultServer } from '../../faults/matrix/fault-server.ts'
import { DONE, delta, FINISH, open, ROLE, send } from '../../faults/matrix/row.ts'
import { entry, framesOf, policyRow, type TestGateway, testGateway } from '../gateway.ts'

const LONG = 'x'.repeat(4_000)
const TOKENS = LONG.length / 4
let server: FaultServer
let gateway: TestGateway
afterEach(() => {
  gateway.close()
  server.stop()
})

const ask = async (answer: Parameters<typeof startFaultServer>[0], body: Record<string, unknown>) => {
  server = startFaultServer(answer)
  const kind = 'openai_compatible'
  gateway = testGateway({
    entries: [entry({ kind, baseUrl: `http://127.0.0.1:${server.port}/v1` })],
    kinds: [kindOf(kind)!],
    policies: [policyRow({ retry: { attempts: 0 } })],
  })
  const response = await gateway.chat({ model: 'small', messages: [{ role: 'user', content: 'hi' }], ...body })
  expect(response.status).toBe(200)
  if (body.stream === true) await framesOf(response)
  else await response.json()
  return gateway.spool.settled()[0]!
}

const call = { id: 'a', type: 'function', function: { name: 'f', arguments: LONG } }
const said: Record<string, { message: Record<string, unknown>; delta: Record<string, unknown> }> = {
  'arguments of a call': {
    message: { content: null, tool_calls: [call] },
    delta: { tool_calls: [{ index: 0, ...call }] },
  },
  'a refusal': { message: { content: null, refusal: LONG }, delta: { refusal: LONG } },
  reasoning: { message: { content: '', reasoning_content: LONG }, delta: { reasoning_content: LONG } },
}

describe('without the usage of the provider, the estimate counts', () => {
  for (const [name, { message, delta: piece }] of Object.entries(said)) {
    test(`${name}, in JSON`, async () => {
      const choices = [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: 'stop' }]
      const body = JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices })
      const { completion_tokens, cost_basis } = await ask((request) => send(request, body), {})
      expect(completion_tokens).toBeGreaterThanOrEqual(TOKENS)
      expect(cost_basis).toBe('estimated')
    })

    test(`${name}, in a stream`, async () => {
      const { completion_tokens } = await ask(
        (request) => {
          open(request, ROLE, delta(piece), FINISH, DONE)
          request.last()
        },
        { stream: true },
      )
      expect(completion_tokens).toBeGreaterThanOrEqual(TOKENS)
    })
  }

  test('every choice of a stream', async () => {
    const other = delta({ content: LONG }).replace('"index":0', '"index":1')
    const { completion_tokens } = await ask(
      (request) => {
        open(request, ROLE, delta({ content: LONG }), other, FINISH, FINISH.replace('"index":0', '"index":1'), DONE)
        request.last()
      },
      { stream: true, n: 2 },
    )
    expect(completion_tokens).toBe(2 * TOKENS)
  })

  test('what came of a stream that breaks off, where the provider counts as it begins', async () => {
    const begun = delta({ role: 'assistant', content: '' }).replace(
      '"choices"',
      '"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10},"choices"',
    )
    const { outcome, prompt_tokens, completion_tokens, cost_basis } = await ask(
      (request) => {
        open(request, begun, delta({ content: LONG }), delta({ content: LONG }))
        request.connection.end()
      },
      { stream: true },
    )
    expect({ outcome, prompt_tokens, completion_tokens, cost_basis }).toEqual({
      ...{ outcome: 'interrupted', prompt_tokens: 9, completion_tokens: 2 * TOKENS, cost_basis: 'estimated' },
    })
  })
})
