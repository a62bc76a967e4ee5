import { expect, test } from 'bun:test'
import type { Socket } from 'bun'
import fc from 'fast-check'
import { LiveSink } from '../../../src/lib/http-server/live-sink.ts'
import { ServerOutput } from '../../../src/lib/http-server/output.ts'
import { wholeText } from '../../../src/lib/text/text-pieces.ts'

/** What of an output reaches a socket that takes all. */
const written = () => {
  const output = new ServerOutput({ blocked() {}, drained() {} })
  const sent: string[] = []
  const write = (bytes: Buffer, from = 0, length = bytes.length) => {
    sent.push(bytes.toString('latin1', from, from + length))
    return length
  }
  output.opened({ write } as unknown as Socket<unknown>)
  return { output, sent }
}

/** The same, without its date. */
const undated = (text: string | undefined) => text?.replace(/^date: [^\r]{29}\r\n/m, '')

const chunkOf = (text: string) => {
  const bytes = Buffer.from(text)
  return `${bytes.length.toString(16)}\r\n${bytes.toString('latin1')}\r\n`
}

const LINES = ['x-a: b\r\nx-number: ', 1_234_567, '\r\n'] as const
const text = fc
  .tuple(fc.string({ unit: 'binary', minLength: 1, maxLength: 9 }), fc.constantFrom(1, 2, 3, 9, 40, 700, 9_000))
  .map(([one, times]) => one.repeat(times))

test('property: whatever is written, a live body is well-formed chunks behind its head', () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(text, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 5 }),
      fc.constantFrom(LINES, wholeText(LINES), [...LINES, `x-long: ${'y'.repeat(9_000)}\r\n`]),
      fc.boolean(),
      (pieces, lines, closes) => {
        const { output, sent } = written()
        const sink = new LiveSink(output, { status: 200, lines, closes }, true)
        for (const piece of pieces) {
          for (const part of piece) sink.write(part)
          expect(sink.flush()).toBe(0)
        }
        sink.write('end')
        sink.close()
        const head = `HTTP/1.1 200 OK\r\n${wholeText(lines)}${closes ? 'connection: close\r\n' : ''}transfer-encoding: chunked\r\n\r\n`
        const chunks = pieces.map((piece) => chunkOf(piece.join('')))
        expect(undated(sent[0])).toBe(head + chunks[0]!)
        expect(sent.slice(1)).toEqual([...chunks.slice(1), `${chunkOf('end')}0\r\n\r\n`])
      },
    ),
    { numRuns: 200 },
  )
})

test('a body that ends without a further text, and one for a client that knows no chunks', () => {
  for (const [chunked, expected] of [
    [true, ['transfer-encoding: chunked\r\n\r\n1\r\na\r\n', '0\r\n\r\n']],
    [false, ['\r\na', '']],
  ] as const) {
    const { output, sent } = written()
    const sink = new LiveSink(output, { status: 404, lines: 'x-a: b\r\n', closes: false }, chunked)
    sink.write('a')
    sink.flush()
    sink.close()
    expect([undated(sent[0]), sent[1]]).toEqual([`HTTP/1.1 404 Not Found\r\nx-a: b\r\n${expected[0]}`, expected[1]])
  }
})
