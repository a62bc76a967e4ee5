// The official OpenAI SDKs, unchanged except for base URL and key, hold one conversation with a fake of every kind's
// vendor through one gateway process: JavaScript here, Python in every_kind.py. The vendors refuse everything that is
// wrong on their wire.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import OpenAI, { AuthenticationError, BadRequestError, InternalServerError, RateLimitError } from 'openai'
import type {
  ChatCompletion,
  ChatCompletionCreateParamsNonStreaming,
  ChatCompletionMessageParam,
} from 'openai/resources/chat/completions'
import { KINDS } from '../../../src/providers/kinds.ts'
import { type GatewayProcess, INFERENCE_KEY, startGateway } from '../../services/gateway.ts'
import { openaiForPython, runToEnd } from '../../services/python.ts'
import { recordedBreak, recordedFailure } from '../../services/vendors/fixtures.ts'
import { gatewayInFrontOf, startVendors, type Vendor } from '../../services/vendors/vendors.ts'
import {
  ADDRESS,
  callsOf,
  expectUsage,
  fold,
  gatewayOf,
  moved,
  NO_ADDRESSES,
  NO_FORCED,
  NO_SINGLE,
  PNG,
  REPORT,
  refusal,
  SYSTEM,
  said,
  seen,
  takenBy,
  user,
  weather,
} from './said.ts'

const vendors = startVendors()
let gateway: GatewayProcess
let client: OpenAI

beforeAll(async () => {
  const { providers, env } = gatewayInFrontOf(vendors)
  const sandbox = { name: 'sandbox', kind: 'sandbox', models: [{ name: 'sandbox-echo' }] }
  gateway = startGateway({
    settings: {
      worker: { enabled: false },
      health: { probe_interval: 'off' },
      bootstrap: { providers: [...providers, sandbox] },
    },
    env,
  })
  await gateway.until('serving')
  client = new OpenAI({ apiKey: INFERENCE_KEY, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
}, 60_000)
afterAll(async () => {
  await gateway?.remove()
  await Promise.all(vendors.map(({ stop }) => stop()))
})

const create = (body: ChatCompletionCreateParamsNonStreaming & Record<string, unknown>): Promise<ChatCompletion> =>
  client.chat.completions.create(body)
const conversation = (vendor: Vendor) => {
  const { name: model, kind } = vendor
  const taken = takenBy(vendor)
  const takes = (capability: string) => taken.includes(capability)

  test('its models are listed, with what they can do', async () => {
    const ids: string[] = []
    for await (const { id } of client.models.list()) ids.push(id)
    expect(ids).toContain(model)
    expect(ids).toContain(`${model}-alias`)
    const listed = (await client.models.retrieve(`${model}-Alias`)) as OpenAI.Model & { gateway_capabilities: string[] }
    expect(listed).toMatchObject({ object: 'model', owned_by: model } as object)
    expect([...listed.gateway_capabilities].sort()).toEqual(taken.sort())
  })

  test('text, with all that a client may send', async () => {
    const answer = await create({
      model,
      messages: [SYSTEM, { ...user('Hello, Grüße 👋'), name: 'ann' }],
      temperature: 0.5,
      max_tokens: 50,
      max_completion_tokens: 100,
      stop: ['END'],
      frequency_penalty: 0.1,
      presence_penalty: 0.1,
      user: 'u-1',
      top_k: 40,
      min_p: 0.05,
      repetition_penalty: 1.1,
      ...(takes('seed') ? { seed: 7 } : {}),
    })
    expect(answer.object).toBe('chat.completion')
    expect(answer.choices[0]).toMatchObject({ index: 0, finish_reason: 'stop' })
    expect(said(answer)).toBe('[Be brief.] You said: Hello, Grüße 👋')
    expectUsage(answer.usage)
    expect(gatewayOf(answer)).toMatchObject({ provider: model, requested_model: model, fallback_used: false })
  })

  test('streamed text with usage, and without', async () => {
    const messages = [user('Hello, Grüße 👋, and a good day to you')]
    const options = { stream: true, stream_options: { include_usage: true } } as const
    const told = await fold(await client.chat.completions.create({ model, messages, ...options }))
    expect(told).toMatchObject({ text: 'You said: Hello, Grüße 👋, and a good day to you', finish: 'stop' })
    expect(told.pieces.length).toBeGreaterThan(3)
    expectUsage(told.usage)
    expect(told.last).toMatchObject({ provider: model })
    const plain = await fold(await client.chat.completions.create({ model, messages, stream: true }))
    expect(plain.text).toBe(told.text)
    const final = await client.chat.completions.stream({ model, messages, ...options }).finalChatCompletion()
    expect(said(final)).toBe(told.text)
  })

  if (takes('tools')) {
    test('a tool is called, and its result answered; the conversation goes on', async () => {
      const messages: ChatCompletionMessageParam[] = [SYSTEM, user('What is the weather in Oslo?')]
      const first = await create({ model, messages, tools: [weather] })
      expect(first.choices[0]!.finish_reason).toBe('tool_calls')
      const [call, ...others] = callsOf(first)
      expect([call, others]).toMatchObject([{ name: 'weather', args: { city: 'Oslo' } }, []])
      messages.push(first.choices[0]!.message, { role: 'tool', tool_call_id: call!.id, content: '-3 degrees' })
      const second = await create({ model, messages, tools: [weather] })
      expect([said(second), second.choices[0]!.finish_reason]).toEqual(['The tools said: -3 degrees.', 'stop'])
      messages.push(second.choices[0]!.message, user('Thanks'))
      expect(said(await create({ model, messages, tools: [weather] }))).toBe('[Be brief.] You said: Thanks')
    })

    test('parallel calls, results in another order; only one where only one is wanted', async () => {
      const messages: ChatCompletionMessageParam[] = [user('What is the weather in Oslo and in Paris?')]
      const parallel = takes('parallel_tool') ? { parallel_tool_calls: true } : {}
      const first = await create({ model, messages, tools: [weather], ...parallel })
      const calls = callsOf(first)
      expect(calls.map(({ args }) => args.city)).toEqual(['Oslo', 'Paris'])
      expect(new Set(calls.map(({ id }) => id)).size).toBe(2)
      messages.push(first.choices[0]!.message)
      for (const { id, args } of [...calls].reverse())
        messages.push({ role: 'tool', tool_call_id: id, content: [{ type: 'text', text: `fine in ${args.city}` }] })
      const second = said(await create({ model, messages, tools: [weather], ...parallel }))
      expect(second).toMatch(/^The tools said: .*fine in Paris.*\.$/)
      expect(second).toContain('fine in Oslo')
      // False asks nothing of a model: every kind takes it, those that can heed it do.
      const single = { messages: messages.slice(0, 1), tools: [weather], parallel_tool_calls: false }
      const isHeeded = takes('parallel_tool') && !NO_SINGLE.includes(model)
      expect(callsOf(await create({ model, ...single }))).toHaveLength(isHeeded ? 1 : 2)
    })

    test('streamed calls: their arguments add up, also in the helper and in its tool runner', async () => {
      const messages = [user('What is the weather in Oslo and in Paris?')]
      const options = { model, messages, tools: [weather], stream: true as const }
      const folded = await fold(await client.chat.completions.create(options))
      expect(folded.finish).toBe('tool_calls')
      expect(folded.calls.map(({ name, args }) => [name, JSON.parse(args)])).toEqual([
        ['weather', { city: 'Oslo' }],
        ['weather', { city: 'Paris' }],
      ])
      expect(new Set(folded.calls.map(({ id }) => id)).size).toBe(2)
      const final = await client.chat.completions.stream(options).finalChatCompletion()
      expect(callsOf(final)).toMatchObject([{ args: { city: 'Oslo' } }, { args: { city: 'Paris' } }])
      const asked: string[] = []
      const runner = client.chat.completions.runTools({
        model,
        messages,
        stream: true,
        tools: [
          {
            type: 'function',
            function: {
              ...weather.function,
              parse: JSON.parse as (text: string) => { city: string },
              function({ city }: { city: string }) {
                asked.push(city)
                return `fine in ${city}`
              },
            },
          },
        ],
      })
      expect(await runner.finalContent()).toBe('The tools said: fine in Oslo; fine in Paris.')
      expect(asked).toEqual(['Oslo', 'Paris'])
    })

    test('tool_choice', async () => {
      const choose = (tool_choice: ChatCompletionCreateParamsNonStreaming['tool_choice'], text: string) =>
        create({ model, messages: [user(text)], tools: [weather], tool_choice })
      expect(said(await choose('none', 'What is the weather in Oslo?'))).toContain('You said')
      expect(callsOf(await choose('auto', 'What is the weather in Oslo?'))).toHaveLength(1)
      const named = { type: 'function', function: { name: 'weather' } } as const
      for (const choice of ['required', named] as const) {
        if (NO_FORCED.includes(kind))
          expect(await refusal(choose(choice, 'Hello'))).toMatchObject({ status: 400, param: 'tool_choice' })
        else expect(callsOf(await choose(choice, 'Hello'))).toMatchObject([{ name: 'weather' }])
      }
    })
  } else {
    test('tools are refused, naming the field', async () => {
      const error = await refusal(create({ model, messages: [user('Hello')], tools: [weather] }))
      expect(error).toBeInstanceOf(BadRequestError)
      expect(error).toMatchObject({ code: 'invalid_request', param: 'tools' })
    })
  }

  test('a conversation that another vendor began', async () => {
    const tools = takes('tools')
    const messages = [...(tools ? moved : [SYSTEM, user('Hello'), moved.at(-1)!]), user('And now?')]
    const answer = await create({ model, messages, ...(tools ? { tools: [weather] } : {}) })
    expect(said(answer)).toBe('[Be brief.] You said: And now?')
  })

  test('structured answers, whole, streamed, and through the helpers that parse them', async () => {
    const messages = [user('Report on the sky in Oslo, as JSON')]
    const object = { model, messages, response_format: { type: 'json_object' } } as const
    if (takes('json_mode')) {
      const answer = await create(object)
      expect(JSON.parse(said(answer)!)).toEqual({ city: 'Oslo', celsius: 21 })
      expect(gatewayOf(answer)).toMatchObject({ structured: { requested: 'json_object', valid: true } })
    } else expect(await refusal(create(object))).toMatchObject({ status: 400, param: 'response_format' })
    const schema = { model, messages, response_format: REPORT }
    if (!takes('json_schema')) {
      expect(await refusal(create(schema))).toMatchObject({ status: 400, param: 'response_format' })
      return
    }
    const report = { city: 'Oslo', celsius: 21, sky: 'clear' }
    const parsed = await client.chat.completions.parse(schema)
    expect(parsed.choices[0]!.message.parsed).toEqual(report)
    expect(parsed.choices[0]!.finish_reason).toBe('stop')
    expect(gatewayOf(parsed)).toMatchObject({ structured: { requested: 'json_schema', valid: true, schema: 'report' } })
    const streamed = await client.chat.completions.stream(schema).finalChatCompletion()
    expect(streamed.choices[0]!.message.parsed).toEqual(report)
  })

  test('images', async () => {
    if (!takes('vision')) {
      const error = await refusal(create({ model, messages: seen(PNG) }))
      expect(error).toMatchObject({ status: 400, code: 'invalid_request' })
      return
    }
    expect(said(await create({ model, messages: seen(PNG) }))).toBe('I see image/png of 70 bytes.')
    const byAddress = create({ model, messages: seen(ADDRESS) })
    if (NO_ADDRESSES.includes(kind))
      expect(await refusal(byAddress)).toMatchObject({ status: 400, param: 'messages[0].content[1].image_url.url' })
    else expect(said(await byAddress)).toBe(`I see ${ADDRESS}.`)
  })

  test('an effort of reasoning is asked for in the words of the vendor, or not at all', async () => {
    const effort = { reasoning_effort: 'low', temperature: 0.5, max_completion_tokens: 4_000 } as const
    expect(said(await create({ model, messages: [user('Think')], ...effort }))).toBe('You said: Think')
  })

  test('a stream that breaks off is an error of the SDK, behind what came before it', async () => {
    const recorded = recordedBreak(kind)
    if (recorded === null) {
      // No failure of these vendors in the middle of a stream is recorded.
      expect(vendor.assumed || ['azure_openai', 'fireworks', 'perplexity'].includes(kind)).toBe(true)
      return
    }
    const stream = await client.chat.completions.create({ model, messages: [user('Break off')], stream: true })
    let text = ''
    const reading = (async () => {
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
    })()
    expect(await refusal(reading)).toMatchObject({ code: recorded.code })
    expect(text).not.toBe('')
  })

  test('failures are the errors of the SDK', async () => {
    const fail = (code: string, stream = false) =>
      refusal(client.chat.completions.create({ model, messages: [user(`Fail with ${code}`)], stream }))
    const limited = await fail('rate_limited')
    expect(limited).toBeInstanceOf(RateLimitError)
    expect((limited as RateLimitError).headers?.get('retry-after')).toBe(
      String(recordedFailure(kind, 'rate_limited').retryAfterS),
    )
    expect(await fail('rate_limited', true)).toBeInstanceOf(RateLimitError)
    const bad = await fail('invalid_request')
    expect(bad).toBeInstanceOf(BadRequestError)
    expect(bad).toMatchObject({ code: 'invalid_request', type: 'invalid_request_error' })
    expect(await fail('authentication_error')).toBeInstanceOf(AuthenticationError)
    for (const stream of [false, true]) {
      const broken = await fail('upstream_error', stream)
      expect(broken).toBeInstanceOf(InternalServerError)
      expect(broken).toMatchObject({ status: 502, code: 'upstream_error' })
    }
  })
}

let python: Promise<Readonly<Record<string, Readonly<Record<string, string | null>>>>> | null = null
const inPython = async () => {
  const models = vendors.map((vendor) => ({
    name: vendor.name,
    takes: takenBy(vendor),
    addresses: !NO_ADDRESSES.includes(vendor.kind),
    forced: !NO_FORCED.includes(vendor.kind),
    retry_after: String(recordedFailure(vendor.kind, 'rate_limited').retryAfterS),
  }))
  const given = { base_url: `${gateway.url}/v1`, key: INFERENCE_KEY, png: PNG, models }
  const command = ['python3', join(import.meta.dir, 'every_kind.py')]
  const out = await runToEnd(command, { PYTHONPATH: await openaiForPython() }, JSON.stringify(given))
  return JSON.parse(out) as Awaited<NonNullable<typeof python>>
}

for (const vendor of vendors)
  describe(vendor.name, () => {
    conversation(vendor)

    test('the same in Python', async () => {
      python ??= inPython()
      const steps = (await python)[vendor.name]!
      expect(Object.values(steps).filter((flaw) => flaw !== null)).toEqual([])
      expect(Object.keys(steps)).toHaveLength(9)
    }, 180_000)

    if (vendor.listings.length > 0 && vendor.secret !== null)
      test('what the vendor lists can be had', async () => {
        const { providers } = (await (await gateway.request('/admin/v1/providers')).json()) as {
          providers: { id: string; name: string }[]
        }
        const { id } = providers.find(({ name }) => name === vendor.name)!
        const body = { secret: vendor.secret, sync_models: true }
        const synced = await gateway.request(`/admin/v1/providers/${id}/credential`, { method: 'PUT', body })
        expect(await synced.json()).toMatchObject({ has_credential: true })
        const ids: string[] = []
        for await (const model of client.models.list()) ids.push(model.id)
        expect(ids).toEqual(expect.arrayContaining(vendor.listings.flatMap(({ names }) => names)))
      })

    test('the vendor found nothing wrong on its wire', () => {
      expect(vendor.refused).toEqual([])
      expect(vendor.served.answers).toBeGreaterThan(7)
      // The vendor was asked for its models when its model was registered.
      if (vendor.listings.length > 0) expect(vendor.served.listings).toBeGreaterThan(0)
    })
  })

test('every kind is among them', () => {
  expect([...new Set(vendors.map(({ kind }) => kind)), 'sandbox'].sort()).toEqual([...KINDS.keys()].sort())
})
