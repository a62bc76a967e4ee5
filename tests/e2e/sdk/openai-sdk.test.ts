// The official `openai` package, unchanged but for base URL and key, against the whole app with the sandbox provider.
import { afterAll, describe, expect, test } from 'bun:test'
import OpenAI, {
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from 'openai'
import { KINDS } from '../../../src/providers/kinds.ts'
import { entry, KEY, testGateway } from '../../inference/gateway.ts'
import { EACH_LISTENER, serveApp } from '../../services/serve-app.ts'

const MODELS = [
  'sandbox-echo',
  'sandbox-tools',
  'sandbox-json',
  'sandbox-slow-20',
  'sandbox-error-503',
  'sandbox-error-429',
  'sandbox-midstream-error',
  'sandbox-cut',
  'sandbox-hang',
]
describe.each(EACH_LISTENER)('behind the %s listener', (listener) => {
  const gateway = testGateway({
    kinds: [...KINDS.values()],
    entries: MODELS.map((name) =>
      entry({ name, kind: 'sandbox', provider: 'sandbox', baseUrl: 'http://sandbox.invalid' }),
    ),
    aliases: { 'gpt-4o': 'sandbox-echo' },
  })
  const server = serveApp(gateway.app, listener)
  const client = new OpenAI({ apiKey: KEY, baseURL: `http://127.0.0.1:${server.port}/v1`, maxRetries: 0 })
  afterAll(async () => {
    gateway.close()
    server.stop()
  })

  const messages = [{ role: 'user' as const, content: 'say something nice' }]
  const weather = {
    type: 'function' as const,
    function: {
      name: 'weather',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  }

  describe('the SDK', () => {
    test('gets a JSON answer, and the gateway block beside it', async () => {
      const answer = await client.chat.completions.create({ model: 'gpt-4o', messages })
      expect(answer.object).toBe('chat.completion')
      expect(answer.choices[0]!.message.content).toBe('say something nice')
      expect(answer.choices[0]!.finish_reason).toBe('stop')
      expect(answer.usage!.total_tokens).toBe(answer.usage!.prompt_tokens + answer.usage!.completion_tokens)
      expect(answer).toMatchObject({
        gateway: { provider: 'sandbox', requested_model: 'gpt-4o', routed_model: 'sandbox-echo' },
      } as object)
    })

    test('streams, with usage', async () => {
      const stream = await client.chat.completions.create({
        model: 'sandbox-echo',
        messages,
        stream: true,
        stream_options: { include_usage: true },
      })
      let text = ''
      let usage = 0
      for await (const chunk of stream) {
        text += chunk.choices[0]?.delta.content ?? ''
        usage = chunk.usage?.total_tokens ?? usage
      }
      expect(text).toBe('say something nice')
      expect(usage).toBeGreaterThan(0)
    })

    test('streams through its helper, which folds the chunks itself', async () => {
      const final = await client.chat.completions.stream({ model: 'sandbox-slow-20', messages }).finalChatCompletion()
      expect(final.choices[0]!.message.content).toBe('say something nice')
    })

    test('declares tools, is called back, and answers', async () => {
      const first = await client.chat.completions.create({ model: 'sandbox-tools', messages, tools: [weather] })
      const [call] = first.choices[0]!.message.tool_calls!
      expect(first.choices[0]!.finish_reason).toBe('tool_calls')
      expect(call).toMatchObject({ type: 'function', function: { name: 'weather' } })
      const streamed = await client.chat.completions
        .stream({ model: 'sandbox-tools', messages, tools: [weather] })
        .finalChatCompletion()
      expect(streamed.choices[0]!.message.tool_calls![0]).toMatchObject({ function: { name: 'weather' } } as object)
      const second = await client.chat.completions.create({
        model: 'sandbox-tools',
        tools: [weather],
        messages: [
          ...messages,
          first.choices[0]!.message,
          { role: 'tool', tool_call_id: call!.id, content: '21 degrees' },
        ],
      })
      expect(second.choices[0]!.finish_reason).toBe('stop')
    })

    test('gets structured answers', async () => {
      const schema = {
        type: 'object',
        properties: { answer: { type: 'string' } },
        required: ['answer'],
        additionalProperties: false,
      }
      const answer = await client.chat.completions.create({
        model: 'sandbox-json',
        messages,
        response_format: { type: 'json_schema', json_schema: { name: 'reply', strict: true, schema } },
      })
      expect(JSON.parse(answer.choices[0]!.message.content!)).toHaveProperty('answer')
      expect(answer).toMatchObject({ gateway: { structured: { valid: true, schema: 'reply' } } } as object)
    })

    test('lists and retrieves models', async () => {
      const ids: string[] = []
      for await (const model of client.models.list()) ids.push(model.id)
      expect(ids).toEqual([...MODELS].sort().concat('gpt-4o'))
      expect((await client.models.retrieve('gpt-4o')).owned_by).toBe('sandbox')
    })
  })

  describe('failures reach the SDK as its own errors', () => {
    const failing = (model: string, more: object = {}) => client.chat.completions.create({ model, messages, ...more })

    test('400 with the field', async () => {
      const error = await failing('sandbox-echo', { top_k: 0 }).catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(BadRequestError)
      expect(error).toMatchObject({ code: 'invalid_request', param: 'top_k', type: 'invalid_request_error' })
      expect((error as BadRequestError).requestID).toStartWith('req_')
    })

    test('401, 404, 429 and 502', async () => {
      const stranger = new OpenAI({
        apiKey: 'gw_live_nobodynobodynobodynobody',
        baseURL: client.baseURL,
        maxRetries: 0,
      })
      expect(await stranger.models.list().catch((thrown: unknown) => thrown)).toBeInstanceOf(AuthenticationError)
      expect(await failing('nope').catch((thrown: unknown) => thrown)).toBeInstanceOf(NotFoundError)
      expect(await failing('sandbox-error-429').catch((thrown: unknown) => thrown)).toBeInstanceOf(RateLimitError)
      const upstream = await failing('sandbox-error-503').catch((thrown: unknown) => thrown)
      expect(upstream).toBeInstanceOf(InternalServerError)
      expect(upstream).toMatchObject({ status: 502, code: 'upstream_error' })
    })

    test('and the SDK repeats what is worth repeating, nothing else', async () => {
      const patient = new OpenAI({ apiKey: KEY, baseURL: client.baseURL, maxRetries: 1 })
      const before = gateway.spool.settled().length
      await patient.chat.completions.create({ model: 'sandbox-error-503', messages }).catch(() => null)
      expect(gateway.spool.settled().length - before).toBe(2)
      await patient.chat.completions.create({ model: 'nope', messages }).catch(() => null)
      expect(gateway.spool.settled().length - before).toBe(3)
    })

    test('in the middle of a stream', async () => {
      for (const model of ['sandbox-midstream-error', 'sandbox-cut']) {
        const stream = await client.chat.completions.create({ model, messages, stream: true })
        const read = async () => {
          for await (const chunk of stream) expect(chunk.object).toBe('chat.completion.chunk')
        }
        await expect(read()).rejects.toThrow()
      }
      expect(gateway.spool.settled().slice(-2)).toMatchObject([{ outcome: 'interrupted' }, { outcome: 'interrupted' }])
    })

    test('and an aborted stream is settled as canceled', async () => {
      const before = gateway.spool.settled().length
      const stream = await client.chat.completions.create({ model: 'sandbox-hang', messages, stream: true })
      const read = async () => {
        for await (const _ of stream) stream.controller.abort()
      }
      await read().catch((error: unknown) => expect(error).toBeInstanceOf(APIUserAbortError))
      const settled = await gateway.spool.untilSettled(before + 1)
      expect(settled.at(-1)).toMatchObject({ outcome: 'canceled', provider: 'sandbox' })
    })
  })
})
