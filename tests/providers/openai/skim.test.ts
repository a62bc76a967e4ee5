// Frames that pass without being read: the client gets the same bytes, and the same number of characters is counted.
import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { createSseParser, sseFrame } from '../../../src/lib/text/sse.ts'
import { openaiStream } from '../../../src/providers/openai/stream.ts'
import type { StreamPart } from '../../../src/providers/port.ts'
import { GatewayError } from '../../../src/wire/errors.ts'

const READING = { id: 'chatcmpl-x', createdS: 1, secret: null }

/** The client's bytes, what was counted, how it ended, and how many runs were skimmed. */
const relay = (bytes: Uint8Array, cuts: readonly number[], skims: boolean, hidesUsage = false) => {
  const decoder = openaiStream({ ...READING, hidesUsage })
  const parser = createSseParser(undefined, skims ? decoder.skimmer! : null)
  let client = ''
  let counted = 0
  let runs = 0
  const finishes: string[] = []
  const take = (parts: readonly StreamPart[]) => {
    for (const { json, frames, bytes: added, finishReason } of parts) {
      if (finishReason !== null) finishes.push(finishReason)
      client += frames ?? (json === null ? '' : sseFrame(json))
      counted += added
      if (frames !== undefined) runs++
    }
  }
  const edges = [0, ...[...cuts].sort((a, b) => a - b), bytes.length]
  try {
    for (let i = 1; i < edges.length; i++)
      for (const event of parser.push(bytes.subarray(edges[i - 1], edges[i]))) take(decoder.push(event))
    for (const event of parser.end()) take(decoder.push(event))
    take(decoder.end())
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return { client, counted, finishes, ending: error.code, runs }
  }
  return { client, counted, finishes, ending: decoder.complete ? 'whole' : 'cut', runs }
}

const same = (bytes: Uint8Array, cuts: readonly number[], hidesUsage = false) => {
  const { runs: _, ...skimmed } = relay(bytes, cuts, true, hidesUsage)
  const { runs: __, ...read } = relay(bytes, cuts, false, hidesUsage)
  expect(skimmed).toEqual(read)
}

const ROOT = join(import.meta.dir, '../../fixtures/providers')
const streams = readdirSync(ROOT, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.sse'))

test('every recorded stream, cut anywhere', () => {
  expect(streams.length).toBeGreaterThan(5)
  for (const path of streams) {
    const bytes = readFileSync(join(ROOT, path))
    same(bytes, [])
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 8 }), (cuts) => same(bytes, cuts)),
      { numRuns: 20 },
    )
  }
})

const chunk = (content: string) =>
  `data: ${JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`

test('property: whatever the texts are', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('plain', ' text', '', 'a"b', 'a\\b', '\n', '\u0001', 'é'),
  )
  fc.assert(
    fc.property(fc.array(text, { maxLength: 20 }), fc.array(fc.nat(3_000), { maxLength: 6 }), (texts, cuts) => {
      const bytes = Buffer.from(`${texts.map(chunk).join('')}data: [DONE]\n\n`)
      same(
        bytes,
        cuts.map((cut) => Math.min(cut, bytes.length)),
      )
    }),
    { numRuns: 500 },
  )
})

test('a first frame that came in two pieces has its role, although the one after it was looked at before', () => {
  same(Buffer.from(`${['one', 'two', 'three'].map(chunk).join('')}data: [DONE]\n\n`), [1])
})

test('plain frames do pass as runs', () => {
  const bytes = Buffer.from(['one', 'two', 'three', 'a"b', 'four', 'five'].map(chunk).join(''))
  expect(relay(bytes, [], true)).toMatchObject({ runs: 2, counted: 22 })
})

test('bytes are counted, not characters: of a run that is skimmed like of chunks that are read', () => {
  const texts = ['one', 'zwölf', '日本語', '😀', 'four']
  const bytes = Buffer.from(texts.map(chunk).join('').replaceAll('"model":"m"', '"model":"modèle"'))
  const counted = Buffer.byteLength(texts.join(''))
  expect(relay(bytes, [], true)).toMatchObject({ runs: 1, counted })
  expect(relay(bytes, [], false)).toMatchObject({ runs: 0, counted })
})

test('a frame with a control character in its text is no JSON and is read', () => {
  const bytes = Buffer.from(`${chunk('one')}${chunk('two').replace('two', 't\to')}${chunk('three')}`)
  same(bytes, [])
  expect(relay(bytes, [], true).client).not.toContain('t\to')
})

type Delta = Readonly<Record<string, unknown>>
const whole = (choice: object, more: object = {}) =>
  JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [choice], ...more })
/** As vendors spell their chunks, and as nobody does. */
const SHAPES: readonly ((delta: Delta, finish: string | null) => string)[] = [
  (delta, finish) => whole({ index: 0, delta, finish_reason: finish }),
  (delta, finish) => whole({ index: 0, delta, logprobs: null, finish_reason: finish }, { usage: null }),
  (delta, finish) => whole({ index: 0, delta, logprobs: null, finish_reason: finish }, { service_tier: 'é' }),
  (delta, finish) => whole({ index: 0, finish_reason: finish, delta }),
  (delta, finish) => whole({ delta, finish_reason: finish, index: 0 }, { note: { delta: {}, finish_reason: null } }),
  (delta, finish) => whole({ index: 0, delta, finish_reason: finish }).replace(/\}\]\}$/, ',"finish_reason":null}]}'),
  (delta, finish) => whole({ index: 0, delta, native: null, finish_reason: finish }, { note: 'delta' }),
  (delta, finish) =>
    whole({ note: { delta: { content: 'x' }, finish_reason: null }, index: 0, delta, finish_reason: finish }),
  (delta, finish) =>
    whole({ finish_reason: 'stop', index: 0, delta }).replace(
      /\}\]\}$/,
      `,"finish_reason":${JSON.stringify(finish)}}]}`,
    ),
  (delta, finish) => whole({ index: 0, delta, finish_reason: finish }, { model: 'a\\"m' }),
  (delta, finish) => whole({ index: 0, delta, finish_reason: finish }).replaceAll('":', '": '),
  (delta, finish) => whole({ index: 0, delta, finish_reason: finish }).replace('"delta":', '"\\u0064elta":'),
  (delta, finish) =>
    whole({ index: 0, delta, finish_reason: finish }, { note: { delta: { role: 'x' }, finish_reason: null } })
      .replace('"delta"', '"delt\\u0061"')
      .replace('"finish_reason"', '"finish_reaso\\u006e"'),
]
const FIRST: readonly Delta[] = [
  { role: 'assistant', content: '' },
  { role: 'assistant', content: null, refusal: null },
  { role: 'assistant' },
  { content: '', role: 'assistant' },
  { role: 'assistant', content: 'Hi' },
  { role: 'assistant', content: 'a}b' },
  { role: 'assistant', content: '', more: { content: 'x' } },
  { content: 'no role' },
]
const LAST: readonly (readonly [Delta, string | null])[] = [
  [{}, 'stop'],
  [{}, 'length'],
  [{}, 'tool_calls'],
  [{}, 'content_filter'],
  [{}, 'end_turn'],
  [{}, null],
  [{ content: '' }, 'stop'],
  [{ content: 'end' }, 'stop'],
  [{ role: 'assistant' }, 'stop'],
]

test('property: whatever chunks look like, what their beginning tells of the others is what reading each of them tells', () => {
  const texts = fc.array(fc.constantFrom('one', ' zwölf', '', 'a"b', '}', '日本語'), { maxLength: 6 })
  const shape = fc.constantFrom(...SHAPES)
  let runs = 0
  fc.assert(
    fc.property(
      fc.tuple(shape, fc.option(shape, { freq: 2 }), fc.constantFrom(...FIRST), texts, fc.constantFrom(...LAST)),
      fc.array(fc.nat(2_000), { maxLength: 3 }),
      ([usual, other, first, words, [delta, reason]], cuts) => {
        const chunks = [usual(first, null), ...words.map((content) => usual({ content }, null))]
        if (other !== null) chunks.push(other({ content: 'other' }, null), usual({ content: 'again' }, null))
        chunks.push((other ?? usual)(delta, reason), usual(delta, reason))
        const bytes = Buffer.from(`${chunks.map((data) => `data: ${data}\n\n`).join('')}data: [DONE]\n\n`)
        const edges = cuts.map((cut) => Math.min(cut, bytes.length))
        same(bytes, edges)
        runs += relay(bytes, edges, true).runs
      },
    ),
    { numRuns: 3_000 },
  )
  expect(runs).toBeGreaterThan(1_000)
})

test('the text behind a chunk with the role passes in a run already, come alone or together', () => {
  const [usual] = SHAPES
  const frames = [
    usual!({ role: 'assistant', content: '' }, null),
    ...['one', 'two'].map((content) => usual!({ content }, null)),
  ]
  const texts = frames.map((data) => `data: ${data}\n\n`)
  const bytes = Buffer.from(texts.join(''))
  expect(relay(bytes, [], true)).toMatchObject({ runs: 1, counted: 6, client: texts.join('') })
  expect(relay(bytes, [texts[0]!.length, texts[0]!.length + texts[1]!.length], true)).toMatchObject({
    runs: 2,
    counted: 6,
  })
})

test('a frame that is no JSON is no run because the chunk before it had a brace at that place', () => {
  for (const first of [
    { role: 'assistant', content: 'a}b' },
    { role: 'assistant', more: { content: '' } },
  ]) {
    const begun = SHAPES[0]!(first, null)
    const brace = begun.indexOf('}')
    const broken = `${begun.slice(0, begun.indexOf('"role"'))}"content":"x"${begun.slice(brace)}`
    const bytes = Buffer.from([begun, broken, broken].map((data) => `data: ${data}\n\n`).join(''))
    same(bytes, [])
    expect(relay(bytes, [], true).runs).toBe(0)
  }
})

test('a delta that is not the one of the choice says nothing of the frames that follow', () => {
  const choice = { index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }
  const note = { delta: { content: 'x' }, finish_reason: null }
  for (const data of [whole({ note, ...choice }), whole(choice, { note }).replace('"delta"', '"delt\\u0061"')]) {
    const bytes = Buffer.from(`data: ${data}\n\n`.repeat(3))
    same(bytes, [])
    expect(relay(bytes, [], true).runs).toBe(0)
  }
})

/** As OpenAI sends them: letters of its own behind each. */
const vendorChunk = (delta: unknown, obfuscation: string, finish: string | null = null) =>
  `data: ${JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 1, model: 'm', service_tier: 'default', choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }], usage: null, obfuscation })}\n\n`

test('property: whatever letters stand behind the texts, also where the usage is not the client’s', () => {
  const letters = fc.oneof(fc.string({ maxLength: 12 }), fc.constantFrom('', 'aZ09', 'a"b', 'a\\b', 'é', '"}'))
  const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 8 }), fc.constantFrom('plain', ' text', '', 'é'))
  const chunks = fc.array(fc.tuple(text, letters), { maxLength: 20 })
  fc.assert(
    fc.property(chunks, letters, fc.array(fc.nat(6_000), { maxLength: 6 }), fc.boolean(), (all, first, cuts, hides) => {
      const begin = vendorChunk({ role: 'assistant', content: '' }, first)
      const words = all.map(([content, behind]) => vendorChunk({ content }, behind)).join('')
      const bytes = Buffer.from(`${begin}${words}${vendorChunk({}, first, 'stop')}data: [DONE]\n\n`)
      const within = cuts.map((cut) => Math.min(cut, bytes.length))
      same(bytes, within, hides)
      const { client } = relay(bytes, within, true, hides)
      const said = all.map(([content]) => content).join('')
      // By the line feed alone: a text may hold U+2028, at which a pattern sees the end of a line too.
      const lines = client.split('\n').filter((line) => line.startsWith('data: {'))
      const frames = lines.map((line) => JSON.parse(line.slice('data: '.length)))
      expect(frames.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(said)
      expect(frames.slice(1, -1).map(({ obfuscation }) => obfuscation)).toEqual(all.map(([, behind]) => behind))
    }),
    { numRuns: 500, examples: [[[['\u2028', '']], '', [], false]] },
  )
  const plain = ['one', 'two', 'three'].map((content) => vendorChunk({ content }, content.repeat(2))).join('')
  const bytes = Buffer.from(`${vendorChunk({ role: 'assistant', content: '' }, 'q')}${plain}`)
  expect(relay(bytes, [], true).runs).toBe(1)
  const hidden = relay(bytes, [], true, true)
  expect(hidden.runs).toBe(1)
  expect(hidden.client).toBe(bytes.toString().replaceAll('"usage":null,', ''))
})

/** A chunk whose delta is spelled so, in a choice that is. */
const spelled = (delta: string, more = '') =>
  `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m"${more},"choices":[{"index":0,"delta":${delta},"finish_reason":null}]}`
const contentOf = (json: string): string => JSON.parse(json).choices[0].delta.content

test('members that stand twice, spelled otherwise or beside the text are read as JSON.parse reads them', () => {
  const first = spelled('{"role":"assistant","content":""}')
  const streams = [
    [first, spelled('{"content":"A","content": "A"}'), spelled('{"content":"BBBB","content": "A"}')],
    [
      first,
      spelled('{"content": "A"}', ',"note":{"content":"A"}'),
      spelled('{"content": "A"}', ',"note":{"content":"BB"}'),
    ],
    [first, spelled('{"content":"A","cont\\u0065nt":"A"}'), spelled('{"content":"BBBB","cont\\u0065nt":"A"}')],
  ]
  for (const hides of [false, true])
    for (const chunks of streams.map((all) =>
      all.map((data) => (hides ? data.replace('"choices"', '"usage":null,"choices"') : data)),
    )) {
      const bytes = Buffer.from(chunks.map((data) => `data: ${data}\n\n`).join(''))
      const { client, counted } = relay(bytes, [], true, hides)
      const said = chunks.map(contentOf)
      expect([...client.matchAll(/^data: (.*)$/gm)].map(([, json]) => contentOf(json!))).toEqual(said)
      expect(counted).toBe(Buffer.byteLength(said.join('')))
    }
})

test('what a delta says beside its text is counted in each chunk', () => {
  const chunks = ['a', 'b', 'c'].map((text) => spelled(`{"content":"${text}","refusal":"nope"}`))
  const bytes = Buffer.from(
    [spelled('{"role":"assistant","content":""}'), ...chunks].map((data) => `data: ${data}\n\n`).join(''),
  )
  expect(relay(bytes, [], true).counted).toBe(15)
  expect(relay(bytes, [bytes.length - 200], true).counted).toBe(15)
})

test('a frame that is no JSON is no run because a member of the first stood there twice', () => {
  for (const [role, rest] of [
    ['"role":"x}y","role":"assistant","content":""', '}y","role":"assistant","content":""}'],
    ['"content":{"a":1},"content":"","role":"assistant"', '},"content":"","role":"assistant"}'],
  ] as const) {
    const bytes = Buffer.from(
      [`{${role}}`, `{"content":"hi"${rest}`].map((delta) => `data: ${spelled(delta)}\n\n`).join(''),
    )
    const { client, runs } = relay(bytes, [], true)
    expect(runs).toBe(0)
    expect(client).not.toContain('hi')
  }
})
