// Each provider kind against its fixtures: tests/fixtures/providers/<kind>/{request,answer,errors,listing}.json, and
// streams as they arrive (`<name>.sse`, or the ending of another framing) with their expected parts
// (`<name>.parts.json`).
import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { createSseParser } from '../../src/lib/text/sse.ts'
import { KINDS } from '../../src/providers/kinds.ts'
import { OPENAI_ROWS } from '../../src/providers/openai/rows.ts'
import {
  ALL_CAPABILITIES,
  type ProviderKind,
  type Reading,
  type StreamPart,
  type Target,
} from '../../src/providers/port.ts'
import { GatewayError } from '../../src/wire/errors.ts'

const ROOT = `${import.meta.dir}/../fixtures/providers`
const RICH = readFileSync(`${import.meta.dir}/../fixtures/rich-request.json`, 'utf8').trim()
const READING: Reading = {
  id: 'chatcmpl-fixture',
  createdS: 1_770_000_000,
  model: 'asked-for',
  secret: 'fixture-secret-value',
}

interface ExpectedError {
  code: string
  [field: string]: unknown
}
interface RequestCase {
  name: string
  /** The client's text, or its body. */
  raw?: string
  body?: Record<string, unknown>
  /** The body is the one of rich-request.json. */
  rich?: boolean
  stream?: boolean
  capabilities?: string[]
  target?: Partial<Target>
  url?: string
  headers?: Record<string, string>
  /** The upstream's body: exact text, or what it parses to. */
  text?: string
  lines?: string[]
  json?: unknown
  shaping?: string[]
  error?: ExpectedError
}
interface AnswerCase {
  name: string
  body: string
  /** `same`: the upstream's bytes. */
  json?: unknown
  answer?: unknown
  usage?: unknown
  /** What is kept as the upstream's own usage. Default: the `usage` of its body. */
  rawUsage?: unknown
  error?: ExpectedError
}
interface ErrorCase {
  name: string
  status: number
  headers?: Record<string, string>
  body: string
  error: ExpectedError
}
interface Listed {
  url: string
  body: unknown
  models: unknown
}
interface Listing extends Listed {
  target?: Partial<Target>
  /** Further lists that the kind requests. */
  further?: Listed[]
}
interface StreamCase {
  /** Chunks in order; only the members given here are compared. `null` stands for any chunk without content. */
  parts: unknown[]
  text: string
  unreadable?: number
  error?: ExpectedError
}

const load = <Value>(kind: string, name: string): Value => JSON.parse(readFileSync(`${ROOT}/${kind}/${name}`, 'utf8'))
const failure = (work: () => unknown): GatewayError => {
  try {
    work()
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}
const expectError = (error: GatewayError, expected: ExpectedError) => {
  for (const [field, value] of Object.entries(expected))
    expect([field, error[field as keyof GatewayError] ?? null]).toEqual([field, value as string])
}
const targetOf = (kind: ProviderKind, more: Partial<Target> = {}): Target => ({
  baseUrl: kind.defaultBaseUrl ?? 'http://127.0.0.1:8000/v1',
  secret: kind.needsCredential ? 'sk-fixture' : null,
  upstreamModel: kind.kind === 'openai' ? 'gpt-4o' : 'served',
  options: {},
  maxOutputTokens: null,
  usageOnStream: false,
  ...more,
})

/** Parts, then how the stream ended. */
const decode = (kind: ProviderKind, bytes: Uint8Array, cuts: readonly number[]) => {
  const parser = kind.framing?.() ?? createSseParser()
  const decoder = kind.stream(READING)
  const parts: StreamPart[] = []
  const take = (some: readonly StreamPart[]) => parts.push(...some)
  const edges = [0, ...[...cuts].sort((a, b) => a - b), bytes.length]
  let error: GatewayError | null = null
  try {
    for (let i = 1; i < edges.length; i++)
      for (const event of parser.push(bytes.subarray(edges[i - 1], edges[i]))) take(decoder.push(event))
    for (const event of parser.end()) take(decoder.push(event))
    take(decoder.end())
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown
    error = thrown
  }
  return { parts, error, unreadable: decoder.unreadable }
}

/** A part as the fixtures write it: the chunk without what all chunks have, and what the part says beyond it. */
const brief = ({ json, content, text, finishReason, usage, usageOnly, toolNames }: StreamPart) => {
  const { choices, usage: chunkUsage } = JSON.parse(json!) as {
    choices: { delta: unknown; finish_reason: unknown }[]
    usage?: unknown
  }
  return {
    ...(choices.length === 0 ? { usageChunk: chunkUsage } : { delta: choices[0]!.delta }),
    ...(content ? { content } : {}),
    ...(text === '' ? {} : { text }),
    ...(finishReason === null ? {} : { finishReason, chunkFinish: choices[0]!.finish_reason }),
    ...(usageOnly ? { usageOnly } : {}),
    ...(toolNames.length === 0 ? {} : { toolNames }),
    ...(usage === null
      ? {}
      : { tokens: [usage.promptTokens, usage.completionTokens, usage.cachedPromptTokens, usage.reasoningTokens] }),
    ...(usage?.reportedNanoUsd == null ? {} : { nanoUsd: usage.reportedNanoUsd }),
  }
}

const isStream = (file: string): boolean => !file.endsWith('.json')

for (const kindName of readdirSync(ROOT)) {
  const kind = KINDS.get(kindName)!
  const files = readdirSync(`${ROOT}/${kindName}`)

  describe(`${kindName}: requests`, () => {
    for (const given of load<RequestCase[]>(kindName, 'request.json'))
      test(given.name, () => {
        const raw = given.rich ? RICH : (given.raw ?? JSON.stringify(given.body))
        const { stream = given.rich ?? false, capabilities = [...ALL_CAPABILITIES] } = given
        const build = () =>
          kind.request({ raw, body: JSON.parse(raw), stream, capabilities }, targetOf(kind, given.target))
        if (given.error !== undefined) return expectError(failure(build), given.error)
        const request = build()
        if (given.text !== undefined) expect(request.body).toBe(given.text)
        if (given.lines !== undefined) expect(request.body!.split('\n')).toEqual(given.lines)
        if (given.json !== undefined) expect(JSON.parse(request.body!)).toEqual(given.json)
        if (given.url !== undefined) expect(request.url).toBe(given.url)
        if (given.headers !== undefined) expect(request.headers).toEqual(given.headers)
        expect(request.shaping).toEqual(given.shaping!)
      })
  })

  describe(`${kindName}: answers`, () => {
    for (const given of load<AnswerCase[]>(kindName, 'answer.json'))
      test(given.name, () => {
        if (given.error !== undefined)
          return expectError(
            failure(() => kind.response(given.body, READING)),
            given.error,
          )
        const { json, usage, ...answer } = kind.response(given.body, READING)
        if (given.json === 'same') expect(json).toBe(given.body)
        else expect(JSON.parse(json)).toEqual(given.json)
        expect(answer).toEqual(given.answer as typeof answer)
        if (usage === null) return expect(given.usage).toBeNull()
        const { raw, ...tokens } = usage
        expect(tokens).toEqual(given.usage as typeof tokens)
        expect(raw).toEqual(given.rawUsage ?? JSON.parse(given.body).usage)
      })
  })

  if (files.includes('errors.json'))
    describe(`${kindName}: failures`, () => {
      for (const { name, status, headers, body, error } of load<ErrorCase[]>(kindName, 'errors.json'))
        test(name, () => {
          const thrown = kind.failure(status, body, new Headers(headers), { ...READING, createdS: 0 })
          expect(thrown.upstreamStatus).toBe(status)
          expectError(thrown, error)
        })
    })

  if (files.includes('listing.json'))
    test(`${kindName}: listing`, () => {
      const { target, further = [], ...first } = load<Listing>(kindName, 'listing.json')
      const asked = targetOf(kind, target)
      const requests = [kind.listing!.request(asked), ...(kind.listing!.further?.(asked) ?? [])]
      expect(requests.map(({ method, url, body }) => [method, url, body])).toEqual(
        [first, ...further].map(({ url }) => ['GET', url, null]),
      )
      for (const { body, models } of [first, ...further])
        expect(kind.listing!.read(JSON.stringify(body))).toEqual(models as never)
      const all = [first, ...further].flatMap(({ body }) => kind.listing!.read(JSON.stringify(body)))
      const hasPrice = all.some(({ inputCostPerMillion }) => inputCostPerMillion != null)
      expect(kind.listing!.namesPrices === true).toBe(hasPrice)
      expect(failure(() => kind.listing!.read('<html>')).code).toBe('upstream_error')
    })

  describe(`${kindName}: streams`, () => {
    for (const file of files.filter(isStream))
      test(file, () => {
        const bytes = new Uint8Array(readFileSync(`${ROOT}/${kindName}/${file}`))
        const expected = load<StreamCase>(kindName, file.replace(/\.\w+$/, '.parts.json'))
        const whole = decode(kind, bytes, [])
        expect(whole.parts.map(brief)).toEqual(expected.parts as never)
        expect(whole.parts.map(({ text }) => text).join('')).toBe(expected.text)
        for (const { json } of whole.parts) {
          expect(json).not.toContain('\n')
          expect(JSON.parse(json!)).toMatchObject({
            id: expect.stringMatching(/./),
            object: 'chat.completion.chunk',
            created: expect.any(Number),
          })
        }
        expect(whole.unreadable).toBe(expected.unreadable ?? 0)
        if (expected.error === undefined) expect(whole.error).toBeNull()
        else expectError(whole.error!, expected.error)
        // However the network cuts it, inside characters too, it is the same stream.
        fc.assert(
          fc.property(fc.array(fc.nat(bytes.length), { maxLength: 20 }), (cuts) => {
            const cut = decode(kind, bytes, cuts)
            expect(cut.parts).toEqual(whole.parts)
            expect([cut.error?.code, cut.unreadable]).toEqual([whole.error?.code, whole.unreadable])
          }),
          { numRuns: 100 },
        )
      })
  })
}

describe('every kind has its fixtures', () => {
  for (const [name, kind] of KINDS)
    test(name, () => {
      const folder = `${ROOT}/${name}`
      const files = existsSync(folder) ? readdirSync(folder) : []
      const needed = [
        'request.json',
        'answer.json',
        ...(kind.listing === undefined || kind.script ? [] : ['listing.json']),
      ]
      if (OPENAI_ROWS.some((row) => row.kind === name)) needed.push('errors.json')
      expect([name, needed.filter((file) => !files.includes(file))]).toEqual([name, []])
      expect([name, files.some(isStream)]).toEqual([name, true])
    })
})

describe('conformance of every row', () => {
  for (const { kind: name } of OPENAI_ROWS) {
    const kind = KINDS.get(name)!
    test(`${name}: a rich request is a fixture`, () => {
      const golden = load<RequestCase[]>(name, 'request.json').filter(({ rich }) => rich)
      expect([name, golden.length > 0 && golden.every(({ lines }) => lines !== undefined)]).toEqual([name, true])
    })

    test(`${name}: what it does not know reaches the upstream byte for byte`, () => {
      const fields = `"future":{"big":12345678901234567890, "e":1.50e3,"s":"\\u00e9"}`
      const message = `{"role":"user","content":[{"type":"hologram","depth":98765432109876543210}], "later" : 1.0}`
      const raw = `{"model":"m","messages":[${message}],${fields}}`
      const call = { raw, body: JSON.parse(raw), stream: false, capabilities: ALL_CAPABILITIES }
      const { body, shaping } = kind.request(call, targetOf(kind))
      expect(body).toContain(fields)
      expect(body).toContain(message)
      expect(shaping).toEqual([])
    })

    test(`${name}: nothing is filled in`, () => {
      const raw = '{"model":"m","messages":[{"role":"user","content":"hi"}]}'
      for (const stream of [false, true]) {
        const call = { raw, body: JSON.parse(raw), stream, capabilities: ALL_CAPABILITIES }
        const { body, shaping } = kind.request(call, targetOf(kind, { upstreamModel: 'm' }))
        expect([body, shaping]).toEqual([raw, []])
      }
    })
  }
})
