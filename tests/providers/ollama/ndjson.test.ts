import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { SseTooLarge } from '../../../src/lib/text/sse.ts'
import { createNdjsonParser } from '../../../src/providers/ollama/ndjson.ts'

const encode = (text: string) => new TextEncoder().encode(text)
const all = (bytes: Uint8Array, cuts: readonly number[] = [], limit?: number) => {
  const parser = createNdjsonParser(limit)
  const edges = [0, ...[...cuts].sort((a, b) => a - b), bytes.length]
  return [...edges.slice(1).flatMap((end, i) => parser.push(bytes.subarray(edges[i]!, end))), ...parser.end()]
}
const lines = (...data: string[]) => data.map((line) => ({ event: null, data: line }))

describe('createNdjsonParser', () => {
  test('LF and CRLF, blank lines, a BOM, a last line without its end', () => {
    expect(all(encode('\ufeff{"a":1}\n\r\n  \n{"b":"é😀"}\r\n\n{"c":3}'))).toEqual(
      lines('{"a":1}', '{"b":"é😀"}', '{"c":3}'),
    )
    expect(all(encode(''))).toEqual([])
    expect(all(encode('\n\r\n \n'))).toEqual([])
  })

  test('line separators of Unicode are no line ends', () => {
    expect(all(encode('{"a":"\u2028\u0085"}\n'))).toEqual(lines('{"a":"\u2028\u0085"}'))
  })

  test('a line beyond the limit is refused, wherever it is cut; one of that length is not', () => {
    const limit = 3_000
    expect(all(encode(`${'x'.repeat(limit)}\n{}`), [1, 2_000], limit)).toHaveLength(2)
    for (const cuts of [[], [1], [limit, limit + 1], Array.from({ length: 40 }, (_, i) => i * 80)]) {
      expect(() => all(encode(`{}\n${'x'.repeat(limit + 1)}\n`), cuts, limit)).toThrow(SseTooLarge)
      expect(() => all(encode('y'.repeat(limit + 1)), cuts, limit)).toThrow(SseTooLarge)
    }
  })

  test('what was pushed may be overwritten by its owner', () => {
    const parser = createNdjsonParser()
    const bytes = encode('{"a":')
    parser.push(bytes)
    bytes.fill(0)
    expect(parser.push(encode('1}\n'))).toEqual(lines('{"a":1}'))
  })
})

test('property: cut at any bytes, the lines are the same and those that a split gives', () => {
  const piece = fc.constantFrom('é€😀', '{"x":"\u2028"}', '\n', '\r\n', '\n\n', ' ', 'x', '\r', '')
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), fc.array(fc.nat(400), { maxLength: 20 }), (pieces, cuts) => {
      const text = pieces.join('')
      const bytes = encode(text)
      const split = text.split('\n').flatMap((line) => line.trim() || [])
      expect(
        all(
          bytes,
          cuts.map((cut) => Math.min(cut, bytes.length)),
        ),
      ).toEqual(lines(...split))
    }),
    { numRuns: 2000 },
  )
})
