import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { MalformedResponse } from '../../../src/lib/http-client/response-head.ts'
import { ResponseParser } from '../../../src/lib/http-client/response-parser.ts'

const read = (text: string, cuts: readonly number[] = [], method = 'POST') => {
  const bytes = Buffer.from(text, 'latin1')
  const body: Buffer[] = []
  const parser = new ResponseParser(method, {
    take: (bytes, from, to) => void body.push(Buffer.from(bytes.subarray(from, to))),
  })
  let leftover = false
  const edges = [0, ...[...cuts].sort((a, b) => a - b), bytes.length]
  for (let i = 1; i < edges.length; i++) leftover = parser.push(bytes.subarray(edges[i - 1]!, edges[i]!)) || leftover
  return { parser, leftover, body: Buffer.concat(body).toString('latin1') }
}
const whole = (text: string, cuts: readonly number[] = [], method = 'POST') => {
  const { parser, leftover, body } = read(text, cuts, method)
  parser.close()
  return { status: parser.head!.status, headers: parser.head!.headers, body, keepAlive: parser.keepAlive, leftover }
}

describe('ResponseParser', () => {
  test('content-length', () => {
    const got = whole('HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A:  b \r\nx-a: c\r\n\r\nhello')
    expect(got).toEqual({
      status: 200,
      headers: [
        ['content-length', '5'],
        ['x-a', 'b'],
        ['x-a', 'c'],
      ],
      body: 'hello',
      keepAlive: true,
      leftover: false,
    })
  })

  test('chunked, with extensions and trailers', () => {
    const got = whole(
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n00A \r\n0123456789\r\n0\r\nX-T: 1\r\n\r\n',
    )
    expect([got.body, got.keepAlive]).toEqual(['hello0123456789', true])
  })

  test('until close, and what keeps a connection', () => {
    expect(whole('HTTP/1.1 200 OK\r\n\r\nabc')).toMatchObject({ body: 'abc', keepAlive: false })
    expect(whole('HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n').keepAlive).toBe(false)
    expect(whole('HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n').keepAlive).toBe(true)
    expect(whole('HTTP/1.1 200 OK\r\nConnection: x, close\r\nContent-Length: 0\r\n\r\n').keepAlive).toBe(false)
    const { parser } = read('HTTP/1.1 200 OK\r\nKeep-Alive: max=9, timeout=5\r\nContent-Length: 0\r\n\r\n')
    expect(parser.keepAliveS).toBe(5)
  })

  test('no body for 204, 304 and HEAD; interim answers are passed over', () => {
    expect(whole('HTTP/1.1 204 No Content\r\n\r\n').body).toBe('')
    expect(whole('HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n').body).toBe('')
    expect(whole('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n', [], 'HEAD').body).toBe('')
    expect(
      whole(
        'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx',
      ).body,
    ).toBe('x')
  })

  test('the body is told of where it stands in what came, not in views of it', () => {
    const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
    const reads: Buffer[] = [`${chunked}5\r\nhello\r\n`, '3\r\nyou\r\n', '1\r\n!\r\n000\r\n\r\n'].map((text) =>
      Buffer.from(text),
    )
    const taken: [Buffer, number, number][] = []
    const parser = new ResponseParser('POST', { take: (...piece) => void taken.push(piece) })
    for (const bytes of reads) expect(parser.push(bytes)).toBe(false)
    expect(parser.done).toBe(true)
    expect(taken.map(([bytes]) => reads.indexOf(bytes))).toEqual([0, 1, 2])
    expect(taken.map(([bytes, from, to]) => bytes.toString('latin1', from, to))).toEqual(['hello', 'you', '!'])
  })

  test('bytes after the end are reported', () => {
    expect(read('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n').leftover).toBe(true)
    expect(read('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\ny').leftover).toBe(true)
  })

  test('an early end is an error', () => {
    for (const text of [
      '',
      'HTTP/1.1 200',
      'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n',
    ])
      expect(() => whole(text)).toThrow(MalformedResponse)
  })

  const ok = 'HTTP/1.1 200 OK\r\n'
  const refused: Record<string, string> = {
    'no HTTP': 'SSH-2.0-OpenSSH_9\r\n',
    'another version': 'HTTP/2.0 200 OK\r\n\r\n',
    'a bad status': 'HTTP/1.1 20 OK\r\n\r\n',
    'an upgrade': 'HTTP/1.1 101 Switching Protocols\r\n\r\n',
    'both lengths': `${ok}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n`,
    'two lengths': `${ok}Content-Length: 5\r\nContent-Length: 6\r\n\r\n`,
    'a list of lengths': `${ok}Content-Length: 5, 5\r\n\r\n`,
    'a signed length': `${ok}Content-Length: +5\r\n\r\n`,
    'an unknown coding': `${ok}Transfer-Encoding: gzip, chunked\r\n\r\n`,
    'chunked in HTTP/1.0': 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n',
    'a folded header': `${ok}X-A: b\r\n c\r\n\r\n`,
    'a space before the colon': `${ok}X-A : b\r\n\r\n`,
    'a header without colon': `${ok}nonsense\r\n\r\n`,
    'a NUL': `${ok}X-A: b\0c\r\n\r\n`,
    'a bare LF in a header': `${ok}X-A: b\nX-B: c\r\n\r\n`,
    'a bad chunk size': `${ok}Transfer-Encoding: chunked\r\n\r\n0x5\r\n`,
    'a negative chunk size': `${ok}Transfer-Encoding: chunked\r\n\r\n-5\r\n`,
    'a chunk line without CR': `${ok}Transfer-Encoding: chunked\r\n\r\n5\nhello`,
    'a chunk that is too long': `${ok}Transfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n`,
    'an endless chunk line': `${ok}Transfer-Encoding: chunked\r\n\r\n1;${'x'.repeat(5000)}`,
    'endless headers': `${ok}X-A: ${'x'.repeat(70_000)}`,
    'too many headers': `${ok}${'X-A: b\r\n'.repeat(300)}\r\n`,
    'endless trailers': `${ok}Transfer-Encoding: chunked\r\n\r\n0\r\n${`X-T: ${'x'.repeat(3000)}\r\n`.repeat(30)}`,
    'endless interim answers': 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(12),
  }
  for (const [name, text] of Object.entries(refused))
    test(`refuses ${name}`, () => {
      expect(() => read(text)).toThrow(MalformedResponse)
    })
})

test('property: cut at any bytes, an answer reads the same', () => {
  const answers = [
    'HTTP/1.1 200 OK\r\nContent-Length: 11\r\nServer: x\r\n\r\nhello\r\n\r\nyou',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nb;ext\r\n\r\n\r\n0\r\n\r\nxy\r\n0\r\nT: 1\r\n\r\n',
    'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\nrest\r\n',
  ]
  fc.assert(
    fc.property(fc.constantFrom(...answers), fc.array(fc.nat(120), { maxLength: 12 }), (text, cuts) => {
      expect(
        whole(
          text,
          cuts.map((cut) => Math.min(cut, text.length)),
        ),
      ).toEqual(whole(text))
    }),
    { numRuns: 1000 },
  )
})
