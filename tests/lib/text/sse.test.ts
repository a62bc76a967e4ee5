import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { bytesToText } from '../../../src/lib/text/bytes-to-text.ts'
import { createSseParser, type SseEvent, SseTooLarge, sseFrame } from '../../../src/lib/text/sse.ts'

const encode = (text: string) => new TextEncoder().encode(text)
const all = (bytes: Uint8Array, cuts: readonly number[] = []) => {
  const parser = createSseParser()
  const edges = [0, ...[...cuts].sort((a, b) => a - b), bytes.length]
  return [...edges.slice(1).flatMap((end, i) => parser.push(bytes.subarray(edges[i]!, end))), ...parser.end()]
}

const cutEvery = (size: number, length: number) =>
  Array.from({ length: Math.floor(length / size) }, (_, piece) => (piece + 1) * size)

/** As an exchange hands it over: as text where that is beyond doubt. */
const readAsItComes = (bytes: Buffer, cuts: readonly number[]): { events: SseEvent[]; texts: number } => {
  const parser = createSseParser()
  const events: SseEvent[] = []
  let texts = 0
  let from = 0
  for (const to of [...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]) {
    const text = parser.takesText === true ? bytesToText(bytes, from, to) : null
    if (text !== null) texts++
    events.push(...(text === null ? parser.push(bytes.subarray(from, to)) : parser.pushText!(text)))
    from = to
  }
  return { events: [...events, ...parser.end()], texts }
}

describe('pieces that come as text', () => {
  test('are read as bytes are, wherever they are cut', () => {
    let texts = 0
    const word = fc.constantFrom('a', 'é', '\u{1f600}', '\ufeff', '\ufffd', '\n', 'x'.repeat(30))
    const frame = fc.array(word, { maxLength: 6 }).map((words) => `data: ${words.join('')}\n\n`)
    fc.assert(
      fc.property(
        fc.array(frame, { maxLength: 6 }),
        fc.boolean(),
        fc.array(fc.nat(), { maxLength: 6 }),
        (frames, marked, cuts) => {
          const bytes = Buffer.from(`${marked ? '\ufeff' : ''}${frames.join('')}`)
          const whole = createSseParser()
          const wanted = [...whole.push(bytes), ...whole.end()]
          const { events, texts: count } = readAsItComes(bytes, cuts)
          expect(events).toEqual(wanted)
          texts += count
        },
      ),
      { numRuns: 3_000 },
    )
    expect(texts).toBeGreaterThan(3_000)
  })
})

describe('createSseParser', () => {
  test('LF, CR and CRLF, comments, unknown fields, BOM, several data lines, event names', () => {
    const text =
      '\ufeff: hello\r\nevent: ping\ndata: {"a":\ndata:1}\n\nid: 7\rdata:  two\r\rretry: 5\r\ndata: three\r\n\r\n'
    expect(all(encode(text))).toEqual([
      { event: 'ping', data: '{"a":\n1}' },
      { event: null, data: ' two' },
      { event: null, data: 'three' },
    ])
  })

  test('an event without its blank line counts at the end of the body', () => {
    expect(all(encode('data: a\n\ndata: [DONE]'))).toEqual([
      { event: null, data: 'a' },
      { event: null, data: '[DONE]' },
    ])
  })

  test('a body that is no event stream gives nothing', () => {
    expect(all(encode('<html>\n\n<body>data</body>'))).toEqual([])
  })

  test('long pieces, cut within frames and characters, give the same events', () => {
    const words = Array.from({ length: 4_000 }, (_, word) => `{"text":"wörd ${word} 世界"}`)
    const bytes = encode(words.map((word) => `data: ${word}\n\n`).join(''))
    for (const size of [4_096, 5_003, 16_384, 50_021])
      expect(all(bytes, cutEvery(size, bytes.length))).toEqual(words.map((data) => ({ event: null, data })))
  })

  test('what never ends is refused at the limit', () => {
    const parser = createSseParser(1000)
    parser.push(encode(`data: ${'x'.repeat(900)}`))
    expect(() => parser.push(encode('x'.repeat(200)))).toThrow(SseTooLarge)
    const lines = createSseParser(1000)
    expect(() => {
      for (let i = 0; i < 100; i++) lines.push(encode(`data: ${'y'.repeat(50)}\n`))
    }).toThrow(SseTooLarge)
  })
})

test('S20: sseFrame is always one data line', () => {
  expect(sseFrame('{"a":1}')).toBe('data: {"a":1}\n\n')
  expect(all(encode(sseFrame('{\n"a":1,\r\n"b":"x"}')))).toEqual([{ event: null, data: '{ "a":1,  "b":"x"}' }])
})

test('property: cut at any bytes, inside characters and CRLF too, the events are the same', () => {
  const piece = fc.constantFrom(
    'data: é€😀',
    'data:{"x":"\u2028"}',
    ': c',
    'event: e',
    '\n',
    '\r',
    '\r\n',
    '\n\n',
    '\r\n\r\n',
    'x',
    'data',
    '',
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), fc.array(fc.nat(400), { maxLength: 20 }), (pieces, cuts) => {
      const bytes = encode(pieces.join(''))
      expect(
        all(
          bytes,
          cuts.map((cut) => Math.min(cut, bytes.length)),
        ),
      ).toEqual(all(bytes))
    }),
    { numRuns: 2000 },
  )
})
