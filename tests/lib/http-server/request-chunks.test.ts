// A body in chunks is read in one way, or not at all, however it is cut on its way.

import { expect, test } from 'bun:test'
import { Buffer } from 'node:buffer'
import fc from 'fast-check'
import { RequestChunks } from '../../../src/lib/http-server/request-chunks.ts'
import { MalformedRequest } from '../../../src/lib/http-server/request-head.ts'

interface Read {
  readonly body: string
  readonly done: boolean
  /** What was not looked at. */
  readonly rest: string
}

/** What is read of the text when it comes cut at these places. */
const readOf = (text: string, cuts: readonly number[] = []): Read => {
  const chunks = new RequestChunks()
  const bytes = Buffer.from(text, 'latin1')
  const places = [...cuts.filter((cut) => cut > 0 && cut < bytes.length).sort((a, b) => a - b), bytes.length]
  let body = ''
  let from = 0
  for (const to of places) {
    const piece = bytes.subarray(from, to)
    const taken = chunks.push(piece)
    body += piece.toString('latin1', 0, chunks.dataLength)
    from += taken
    if (chunks.done) break
    expect(taken).toBe(piece.length)
  }
  return { body, done: chunks.done, rest: bytes.toString('latin1', from) }
}

const everywhere = (text: string): number[] => Array.from(text, (_, i) => i)

test('any body in any chunks, cut anywhere, is that body, and nothing behind it is taken', () => {
  const chunk = fc.record({
    data: fc.string({ unit: fc.constantFrom(...'\r\n0aF;: \x00\xff'), minLength: 1, maxLength: 40 }),
    zeros: fc.nat(3),
    isUpper: fc.boolean(),
    extension: fc.constantFrom('', ';', ';a', '; a=b', ' ;a="b c"', '\t;x'),
  })
  const trailers = fc.array(fc.constantFrom('X: y', 'A:', "b'c: d\te", 'X-Length: 5'), { maxLength: 3 })
  const rest = fc.constantFrom('', '\r\n', 'GET / HTTP/1.1\r\n', '0\r\n\r\n')
  fc.assert(
    fc.property(
      fc.array(chunk, { maxLength: 8 }),
      trailers,
      rest,
      fc.array(fc.nat(500), { maxLength: 12 }),
      (parts, lines, after, cuts) => {
        let text = ''
        for (const { data, zeros, isUpper, extension } of parts) {
          const size = data.length.toString(16)
          text += `${'0'.repeat(zeros)}${isUpper ? size.toUpperCase() : size}${extension}\r\n${data}\r\n`
        }
        text += `0\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n${after}`
        const expected = { body: parts.map(({ data }) => data).join(''), done: true, rest: after }
        expect(readOf(text, cuts)).toEqual(expected)
        expect(readOf(text, everywhere(text))).toEqual(expected)
      },
    ),
    { numRuns: 500 },
  )
})

test('what has not come is waited for', () => {
  const text = '5;x\r\nhello\r\n0\r\nA: b\r\n\r\n'
  for (let end = 0; end < text.length; end++) expect(readOf(text.slice(0, end)).done).toBe(false)
  expect(readOf(text)).toEqual({ body: 'hello', done: true, rest: '' })
})

const line = (length: number): string => 'x'.repeat(length)
const REFUSED = [
  '\r\n',
  '\n',
  'g\r\n',
  '-5\r\nhello\r\n',
  '+5\r\nhello\r\n',
  '0x5\r\nhello\r\n',
  ' 5\r\nhello\r\n',
  '5 \r\nhello\r\n',
  '5 5\r\nhello\r\n',
  '5\nhello\r\n',
  '5\r\r\nhello\r\n',
  '5\rx\nhello\r\n',
  '5;a\x00\r\nhello\r\n',
  '5;a\rb\r\nhello\r\n',
  '5\r\nhello\n',
  '5\r\nhello0\r\n',
  '5\r\nhello!\r\n',
  '5\r\nhello\r\r\n',
  '5\r\nhello\rx\n',
  '5\r\nhello \r\n',
  '1000000000000000\r\n',
  'ffffffffffffffff\r\n',
  '10000000000000005\r\n',
  '0000000000005\r\n',
  `5;${line(300)}\r\n`,
  line(300),
  '0\n',
  '0\r\n\n',
  '0\r\nX\r\n',
  '0\r\nX : y\r\n',
  '0\r\n X: y\r\n',
  '0\r\n: y\r\n',
  '0\r\nX: y\n\r\n',
  '0\r\nX: \x00\r\n',
  '0\r\nX: a\rb\r\n',
  '0\r\nContent-Length: 5\r\n',
  '0\r\ntransfer-encoding: chunked\r\n',
  '0\r\nHost: b\r\n',
  `0\r\nX: ${line(9_000)}`,
  `0\r\n${`X: ${line(90)}\r\n`.repeat(100)}`,
]

for (const text of REFUSED)
  test(`${JSON.stringify(text.slice(0, 30))} is refused, cut or not`, () => {
    expect(() => readOf(text)).toThrow(MalformedRequest)
    expect(() => readOf(text, everywhere(text))).toThrow(MalformedRequest)
  })

test('a chunk of any size is not waited for in memory', () => {
  let taken = 0
  const chunks = new RequestChunks()
  chunks.push(Buffer.from('ffffffffffff\r\n'))
  for (let i = 0; i < 10; i++) {
    chunks.push(Buffer.alloc(1_000))
    taken += chunks.dataLength
  }
  expect([taken, chunks.done]).toEqual([10_000, false])
})

test('bytes that are anything are data, are waited for, or are refused, and the cuts change nothing', () => {
  const soup = fc.array(fc.constantFrom('5', '0', 'a', '\r\n', '\r', '\n', ';', ':', ' ', 'hello', '\r\n0\r\n\r\n'), {
    maxLength: 16,
  })
  const outcome = (text: string, cuts: readonly number[]): unknown => {
    try {
      return readOf(text, cuts)
    } catch (error) {
      expect(error).toBeInstanceOf(MalformedRequest)
      return 'refused'
    }
  }
  fc.assert(
    fc.property(soup, (parts) => {
      const text = parts.join('')
      expect(outcome(text, everywhere(text))).toEqual(outcome(text, []))
    }),
    { numRuns: 1_000 },
  )
})
