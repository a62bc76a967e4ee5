// A stored answer comes back as a stream and as one answer, whichever way it came: recorded streams of every provider
// kind, with the same content, reasoning, refusal, usage and finish reason.
import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { asAnswer } from '../../../../src/inference/cache/replay/as-answer.ts'
import { asStream } from '../../../../src/inference/cache/replay/as-stream.ts'
import { type RecordedAnswer, recordedWhole, StreamRecorder } from '../../../../src/inference/cache/replay/recorded.ts'
import { textCuts } from '../../../../src/inference/cache/replay/text-cuts.ts'
import { createSseParser, sseFrame } from '../../../../src/lib/text/sse.ts'
import { KINDS } from '../../../../src/providers/kinds.ts'
import type { ProviderKind, StreamPart } from '../../../../src/providers/port.ts'
import { GatewayError } from '../../../../src/wire/errors.ts'

const ROOT = `${import.meta.dir}/../../../fixtures/providers`
const READING = { id: 'chatcmpl-fixture', createdS: 1_770_000_000, model: 'asked-for', secret: null }

type Members = Record<string, unknown>
interface Chunk {
  choices: { index: number; delta: Members; finish_reason: string | null }[]
  usage?: unknown
}

/** The parts of a recorded stream, its bytes cut at every `step`; null: it fails. */
const decoded = (kind: ProviderKind, bytes: Uint8Array, step: number, skims: boolean): StreamPart[] | null => {
  const decoder = kind.stream(READING)
  const parser = kind.framing?.() ?? createSseParser(undefined, skims ? (decoder.skimmer ?? null) : null)
  const parts: StreamPart[] = []
  try {
    for (let at = 0; at < bytes.length; at += step)
      for (const event of parser.push(bytes.subarray(at, at + step))) parts.push(...decoder.push(event))
    for (const event of parser.end()) parts.push(...decoder.push(event))
    parts.push(...decoder.end())
    return parts
  } catch (error) {
    if (error instanceof GatewayError) return null
    throw error
  }
}

const isWhole = (parts: readonly StreamPart[]): boolean =>
  parts.some(({ finishReason }) => finishReason === 'stop') && parts.every(({ toolNames }) => toolNames.length === 0)

const STREAMS = [...KINDS.values()].flatMap((kind) => {
  const folder = `${ROOT}/${kind.kind}`
  const files = readdirSync(ROOT).includes(kind.kind) ? readdirSync(folder) : []
  return files
    .filter((file) => /\.(?:sse|ndjson|eventstream)$/.test(file))
    .map((file) => ({ name: `${kind.kind}/${file}`, kind, bytes: readFileSync(`${folder}/${file}`) }))
    .filter(({ bytes }) => {
      const parts = decoded(kind, bytes, bytes.length, false)
      return parts !== null && isWhole(parts)
    })
})

const recorded = (parts: readonly StreamPart[], mostChars = 1_000_000): RecordedAnswer | null => {
  const recorder = new StreamRecorder(mostChars)
  recorder.note(parts)
  return recorder.recorded()
}

const chunksOf = (parts: readonly StreamPart[]): Chunk[] =>
  parts.flatMap(({ json }) => (json === null ? [] : [JSON.parse(json) as Chunk]))

/** What the chunks of a stream add up to, choice by choice. Written apart from the code that it tests. */
const summed = (chunks: readonly Chunk[]) => {
  const choices: Record<number, { texts: Record<string, string>; finish: string | null }> = {}
  let usage: unknown = null
  for (const chunk of chunks) {
    usage = chunk.usage ?? usage
    for (const { index, delta, finish_reason } of chunk.choices) {
      choices[index] ??= { texts: {}, finish: null }
      const choice = choices[index]
      choice.finish = finish_reason ?? choice.finish
      for (const name of ['content', 'reasoning', 'reasoning_content', 'refusal'])
        if (typeof delta[name] === 'string' && delta[name] !== '')
          choice.texts[name] = (choice.texts[name] ?? '') + delta[name]
    }
  }
  return { choices, usage }
}

/** The same of a whole answer. */
const summedAnswer = (json: string) => {
  const answer = JSON.parse(json) as {
    choices: { index: number; message: Members; finish_reason: string | null }[]
    usage?: unknown
  }
  return summed([
    {
      choices: answer.choices.map(({ index, message, finish_reason }) => ({ index, delta: message, finish_reason })),
      usage: answer.usage,
    },
  ])
}

test('the recorded streams cover every origin', () => {
  const names = STREAMS.map(({ name }) => name.split('/')[0])
  expect(STREAMS.length).toBeGreaterThanOrEqual(12)
  expect(names).toEqual(expect.arrayContaining(['openai', 'anthropic', 'gemini', 'bedrock', 'cohere', 'ollama']))
})

describe.each(STREAMS)('$name', ({ kind, bytes }) => {
  const parts = decoded(kind, bytes, bytes.length, false)!
  const record = recorded(parts)!
  const original = summed(chunksOf(parts))

  test('comes back as the same stream, chunk by chunk', () => {
    const replayed = asStream(record, { includeUsage: true, usage: null })
    const shown = parts.filter(({ json }) => json !== null)
    const ordered = [...shown.filter((part) => !part.usageOnly), ...shown.filter((part) => part.usageOnly)]
    expect(replayed.map(({ json }) => json)).toEqual(ordered.map(({ json }) => json))
    for (const fact of ['text', 'finishReason', 'content', 'usageOnly'] as const)
      expect(replayed.map((part) => part[fact])).toEqual(ordered.map((part) => part[fact]))
  })

  test('bytes that came in pieces, or frames that were passed on unread, are recorded alike', () => {
    for (const skims of [false, true])
      for (const step of [1, 7, bytes.length]) {
        const again = recorded(decoded(kind, bytes, step, skims)!)!
        expect(asStream(again, { includeUsage: true, usage: null })).toEqual([
          ...asStream(record, { includeUsage: true, usage: null }),
        ])
      }
  })

  test('without a request for it there is no usage in any chunk', () => {
    const replayed = asStream(record, { includeUsage: false, usage: null })
    expect(replayed.some(({ usageOnly }) => usageOnly)).toBe(false)
    const chunks = chunksOf(replayed)
    expect(chunks.every((chunk) => !('usage' in chunk))).toBe(true)
    expect(summed(chunks).choices).toEqual(original.choices)
  })

  test('comes back as one answer, and that as a stream', () => {
    const answer = asAnswer(record, null)
    expect(summedAnswer(answer.json)).toEqual(original)
    expect([answer.finishReason, answer.content ?? '']).toEqual(['stop', original.choices[0]!.texts.content ?? ''])
    const whole = recordedWhole(answer)
    expect(summed(chunksOf(asStream(whole, { includeUsage: true, usage: null })))).toEqual(original)
    const shared = JSON.parse(answer.json) as Members
    for (const chunk of chunksOf(asStream(whole, { includeUsage: true, usage: null })))
      expect(chunk).toMatchObject({ id: shared.id, created: shared.created, model: shared.model })
  })
})

describe('a whole answer as a stream', () => {
  const answer = (choices: object[], more: object = {}) =>
    JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices, ...more })
  const choice = (message: object, more: object = {}) => ({
    index: 0,
    message: { role: 'assistant', ...message },
    finish_reason: 'stop',
    ...more,
  })
  const streamed = (json: string, includeUsage = false) =>
    asStream(recordedWhole({ json }), { includeUsage, usage: null })

  test('every text comes back whole in well-formed pieces, whatever it is', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 400 })
    fc.assert(
      fc.property(text, text, text, (content, reasoning, refusal) => {
        const json = answer([choice({ content, reasoning_content: reasoning, refusal })])
        const parts = streamed(json)
        expect(summed(chunksOf(parts))).toEqual(summedAnswer(json))
        expect(parts.map((part) => part.text).join('')).toBe(content)
        for (const { json: chunk } of parts) expect(chunk!.isWellFormed() && !/\\ud[89a-f]/i.test(chunk!)).toBe(true)
        expect(asAnswer(recorded(parts)!, null).content ?? '').toBe(content)
      }),
      { numRuns: 500 },
    )
  })

  test('by words: the role first, then reasoning, then content, the finish reason last', () => {
    const parts = streamed(answer([choice({ content: 'one two  three', reasoning_content: 'let me see' })]))
    expect(chunksOf(parts).map(({ choices }) => choices[0]!.delta)).toEqual([
      { role: 'assistant' },
      { reasoning_content: 'let' },
      { reasoning_content: ' me' },
      { reasoning_content: ' see' },
      { content: 'one' },
      { content: ' two' },
      { content: '  three' },
      {},
    ])
    expect(parts.map(({ finishReason }) => finishReason)).toEqual([...Array(7).fill(null), 'stop'])
    expect(parts.map(({ content }) => content)).toEqual([false, ...Array(6).fill(true), false])
  })

  test('the usage comes only when it is requested, and numbers beyond a double keep their text', () => {
    const json = `{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop","seed":12345678901234567890}],"usage":{"total_tokens":7}}`
    expect(streamed(json).some(({ usageOnly }) => usageOnly)).toBe(false)
    const parts = streamed(json, true)
    expect(parts.at(-1)).toMatchObject({ usageOnly: true })
    expect(JSON.parse(parts.at(-1)!.json!)).toMatchObject({ choices: [], usage: { total_tokens: 7 } })
    expect(parts.some(({ json: chunk }) => chunk!.includes('12345678901234567890'))).toBe(true)
    expect(asAnswer(recorded(parts)!, null).json).toContain('12345678901234567890')
  })

  test('several choices, probabilities and members of the vendor survive both ways', () => {
    const json = answer(
      [
        choice({ content: 'a b' }, { logprobs: { content: [{ token: 'a' }, { token: ' b' }] } }),
        choice(
          { content: null, refusal: 'I cannot.', annotations: [{ type: 'x' }] },
          { index: 1, native_finish_reason: 'end' },
        ),
      ],
      { system_fingerprint: 'fp', citations: ['u'], usage: { total_tokens: 7 } },
    )
    const back = JSON.parse(asAnswer(recorded(streamed(json, true))!, null).json) as Members
    expect(back).toEqual(JSON.parse(json) as Members)
  })

  test('an empty answer has its role and its finish reason', () => {
    expect(chunksOf(streamed(answer([choice({ content: '' })]))).length).toBe(2)
  })
})

test('a refusal that was streamed comes back as a refusal', () => {
  const head = '"id":"c","object":"chat.completion.chunk","created":1,"model":"m"'
  const frames = [
    `{${head},"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}]}`,
    `{${head},"choices":[{"index":0,"delta":{"refusal":"I can"},"finish_reason":null}]}`,
    `{${head},"choices":[{"index":0,"delta":{"refusal":"not."},"finish_reason":null}]}`,
    `{${head},"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
  ].map(sseFrame)
  const parts = decoded(KINDS.get('openai')!, Buffer.from(`${frames.join('')}data: [DONE]\n\n`), 5, true)!
  const answer = asAnswer(recorded(parts)!, null)
  expect([answer.refusal, answer.content]).toEqual([true, null])
  expect(summedAnswer(answer.json)).toEqual(summed(chunksOf(parts)))
})

test('a stream that is longer than its bound is not recorded, and takes no memory', () => {
  const [first] = STREAMS
  const parts = decoded(first!.kind, first!.bytes, first!.bytes.length, false)!
  expect(recorded(parts, 100)).toBeNull()
  expect(recorded([], 100)).toBeNull()
})

test('texts are cut in at most so many pieces', () => {
  const text = 'word '.repeat(5_000)
  expect(textCuts(text, 256).length).toBeLessThanOrEqual(256)
  expect(textCuts(text, 256).join('')).toBe(text)
  expect(textCuts('x'.repeat(1_000), 256).every((piece) => piece.length <= 80)).toBe(true)
  expect(textCuts('', 256)).toEqual([])
})
