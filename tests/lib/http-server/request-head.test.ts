// A head is read in one way, or not at all.

import { describe, expect, test } from 'bun:test'
import { Buffer } from 'node:buffer'
import fc from 'fast-check'
import { HEAD_BYTES, headEnd, MalformedRequest, RequestHead } from '../../../src/lib/http-server/request-head.ts'

const headOf = (text: string): RequestHead => {
  const bytes = Buffer.from(text, 'latin1')
  const end = headEnd(bytes, 0)
  if (end < 0) throw new Error('the head has no end')
  return new RequestHead(bytes, end)
}

const refusalOf = (text: string): { status: number; param: string | null } => {
  try {
    headOf(text)
  } catch (error) {
    if (error instanceof MalformedRequest) return { status: error.status, param: error.param }
    throw error
  }
  throw new Error('it was taken')
}

const LINE = 'GET / HTTP/1.1\r\nHost: a\r\n'

test('a head says what was sent', () => {
  const head = headOf(
    'POST /v1/chat?x=%41&y HTTP/1.1\r\nHost: gateway.example:8080\r\nX-Empty:\r\nx-tabs: \t two  words \t\r\n' +
      'X-Latin: caf\xe9\r\nContent-Length:  12 \r\nAccept: a\r\naccept: b\r\nACCEPT:\r\nExpect: 100-Continue\r\n\r\nrest',
  )
  expect([head.method, head.target, head.host]).toEqual(['POST', '/v1/chat?x=%41&y', 'gateway.example:8080'])
  expect([head.isOne, head.keepsAlive, head.isChunked, head.length, head.expectsContinue]).toEqual([
    true,
    true,
    false,
    12,
    true,
  ])
  expect(['x-empty', 'X-TABS', 'x-latin', 'Accept', 'none'].map((name) => head.get(name))).toEqual([
    '',
    'two  words',
    'caf\xe9',
    'a, b, ',
    null,
  ])
  expect([head.has('HOST'), head.has('x-Empty'), head.has('hos'), head.has('host ')]).toEqual([
    true,
    true,
    false,
    false,
  ])
  expect(head.entries().slice(0, 3)).toEqual([
    ['Host', 'gateway.example:8080'],
    ['X-Empty', ''],
    ['x-tabs', 'two  words'],
  ])
})

test('names that differ by one character are two names', () => {
  const head = headOf(`${LINE}x0y: 2\r\nx-y: 3\r\n\r\n`)
  expect(['x0y', 'x-y', 'xpy', 'x.y', 'x_y'].map((name) => head.has(name))).toEqual([true, true, false, false, false])
})

test('whether it is for a line is told exactly', () => {
  const line = Buffer.from('POST /hot')
  const isFor = (text: string) => headOf(`${text} HTTP/1.1\r\nHost: a\r\n\r\n`).isFor(line)
  expect(['POST /hot', 'POST /hot?', 'POST /ho', 'PUT /hot', 'POST /Hot', 'POST http://a/hot'].map(isFor)).toEqual([
    true,
    false,
    false,
    false,
    false,
    false,
  ])
})

test('a connection goes on unless its client says otherwise, or speaks HTTP/1.0', () => {
  const keeps = (line: string, lines: string) => headOf(`GET / ${line}\r\nHost: a\r\n${lines}\r\n`).keepsAlive
  expect(keeps('HTTP/1.1', '')).toBe(true)
  expect(keeps('HTTP/1.1', 'Connection: keep-alive\r\n')).toBe(true)
  expect(keeps('HTTP/1.1', 'Connection: closed\r\n')).toBe(true)
  expect(keeps('HTTP/1.1', 'Connection: Close\r\n')).toBe(false)
  expect(keeps('HTTP/1.1', 'Connection: upgrade , CLOSE\r\n')).toBe(false)
  expect(keeps('HTTP/1.1', 'Connection: close\r\nConnection: keep-alive\r\n')).toBe(false)
  expect(keeps('HTTP/1.0', '')).toBe(false)
  expect(keeps('HTTP/1.0', 'Connection: keep-alive\r\n')).toBe(false)
})

test('HTTP/1.0 needs no host', () => {
  const head = headOf('GET / HTTP/1.0\r\n\r\n')
  expect([head.isOne, head.host, head.entries()]).toEqual([false, '', []])
})

test('HTTP/1.0 knows no 100 Continue: what it expects is not heard (RFC 9110, 10.1.1)', () => {
  expect(headOf('POST / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n').expectsContinue).toBe(false)
})

describe('first lines', () => {
  const refused: Record<string, number> = {
    'GET /': 400,
    'GET / ': 400,
    'get / HTTP/1.1': 400,
    'Get / HTTP/1.1': 400,
    ' GET / HTTP/1.1': 400,
    'GET  / HTTP/1.1': 400,
    'GET /  HTTP/1.1': 400,
    'GET\t/ HTTP/1.1': 400,
    'GET / x HTTP/1.1': 400,
    'GET /\tHTTP/1.1': 400,
    'GET / HTTP/1.1 ': 400,
    'GET / HTTP/1.1\r': 400,
    'GET / http/1.1': 400,
    'GET / HTTP/1.': 400,
    'GET / HTTP/1.11': 400,
    'GET / HTTP/01.1': 400,
    'GET / HTTP/1,1': 400,
    'GET / HTTP /1.1': 400,
    'GET / HTTPS/1.1': 400,
    'GET / HTTP/1.2': 505,
    'GET / HTTP/2.0': 505,
    'GET / HTTP/3': 505,
    'PRI * HTTP/2.0': 505,
    'GET /\x00 HTTP/1.1': 400,
    'GET /a\x7f HTTP/1.1': 400,
    'GET /\x80 HTTP/1.1': 400,
    'GET /caf\xc3\xa9 HTTP/1.1': 400,
    'GET /?q=\xff HTTP/1.1': 400,
    'GET http://a/\xe9 HTTP/1.1': 400,
    'GET /a\x0bb HTTP/1.1': 400,
    'GET /\rHTTP/1.1': 400,
    'GET /\nX: HTTP/1.1': 400,
    'GE\x00T / HTTP/1.1': 400,
    'G\xc9T / HTTP/1.1': 400,
    'M-SEARCH / HTTP/1.1': 400,
    'HTTP/1.1 200 OK': 400,
    '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03': 400,
    '': 400,
    ABCDEFGHIJKLMNOPQRSTUVWXYZ: 400,
    'ABCDEFGHIJKLMNOPQRSTUVWXY / HTTP/1.1': 400,
  }
  for (const [line, status] of Object.entries(refused))
    test(`${JSON.stringify(line)} is ${status}`, () => {
      expect(refusalOf(`${line}\r\nHost: a\r\n\r\n`).status).toBe(status)
    })
})

describe('header lines', () => {
  const refused: Record<string, number> = {
    'X: a\r\n b': 400,
    'X: a\r\n\tb': 400,
    ' X: a': 400,
    'X : a': 400,
    'X\t: a': 400,
    'X a': 400,
    X: 400,
    ': a': 400,
    'X\x00Y: a': 400,
    'X: a\x00b': 400,
    'X: a\x01': 400,
    'X: \x7f': 400,
    'X: a\nY: b': 400,
    'X: a\n': 400,
    'X: a\rY: b': 400,
    'X: a\r': 400,
    '\nX: a': 400,
    '\rX: a': 400,
    '(X): a': 400,
    'X\xe9: a': 400,
    '"X": a': 400,
    'Host: b': 400,
    'Host: a': 400,
    'Expect: 200-ok': 417,
    'Expect:': 417,
    'Content-Length:': 400,
    'Content-Length: +5': 400,
    'Content-Length: -5': 400,
    'Content-Length: 5, 5': 400,
    'Content-Length: 5 5': 400,
    'Content-Length: 0x5': 400,
    'Content-Length: 5.0': 400,
    'Content-Length: 1e3': 400,
    'Content-Length: "5"': 400,
    'Content-Length: \xb2': 400,
    'Content-Length: 5\r\nContent-Length: 5': 400,
    'Content-Length: 5\r\ncontent-length: 6': 400,
    'Content-Length: 9999999999999999': 400,
    'Content-Length: 18446744073709551621': 400,
    'Content-Length: 5\r\nTransfer-Encoding: chunked': 400,
    'Transfer-Encoding: chunked\r\nContent-Length: 0': 400,
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked': 501,
    'Transfer-Encoding: chunked, chunked': 501,
    'Transfer-Encoding: gzip, chunked': 501,
    'Transfer-Encoding: chunked, identity': 501,
    'Transfer-Encoding: identity': 501,
    'Transfer-Encoding: xchunked': 501,
    'Transfer-Encoding: chunked;q=1': 501,
    'Transfer-Encoding: \x0bchunked': 400,
    'Transfer-Encoding: \xa0chunked': 501,
    'Transfer-Encoding: "chunked"': 501,
    'Transfer-Encoding:': 501,
    'Transfer-Encoding : chunked': 400,
    'Transfer-Encoding: chunked\r\n': 400,
  }
  for (const [line, status] of Object.entries(refused))
    test(`${JSON.stringify(line)} is ${status}`, () => {
      const text = `POST / HTTP/1.1\r\nHost: a\r\n${line}\r\nZ: z\r\n\r\n`
      if (line.endsWith('\r\n')) expect(headEnd(Buffer.from(text), 0)).toBe(text.indexOf('\r\n\r\n'))
      else expect(refusalOf(text).status).toBe(status)
    })

  test('chunked in any case', () => {
    expect(headOf(`${LINE}tRaNsFeR-eNcOdInG: \tCHUNKED \r\n\r\n`).isChunked).toBe(true)
  })

  test('HTTP/1.0 has no transfer encoding', () => {
    const text = 'POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'
    expect(refusalOf(text)).toEqual({ status: 400, param: 'Transfer-Encoding' })
  })
})

describe('hosts', () => {
  const hostLine = (value: string) => `GET / HTTP/1.1\r\nHost:${value}\r\n\r\n`
  test('what is a host is taken', () => {
    for (const host of ['', 'a', 'a.b-c', 'a:80', 'a:', '127.0.0.1:1', '[::1]', '[::1]:8080', 'a_b'])
      expect(headOf(hostLine(host)).host).toBe(host)
  })
  test('what is none is refused', () => {
    const none = [
      'a b',
      'a/b',
      'a@b',
      'a:b',
      'a:123456',
      'a,b',
      'a?b',
      'a#b',
      '[::1',
      '::1',
      'a\\b',
      '"a"',
      '<a>',
      'h\xe9',
    ]
    for (const host of none) expect([host, refusalOf(hostLine(host))]).toEqual([host, { status: 400, param: 'host' }])
  })
  test('none at all is refused, but not in HTTP/1.0', () => {
    expect(refusalOf('GET / HTTP/1.1\r\nX-Host: a\r\n\r\n')).toEqual({ status: 400, param: 'host' })
  })
})

test('so many headers are taken and no more', () => {
  const lines = (count: number) => Array.from({ length: count }, (_, i) => `X-${i}: ${i}\r\n`).join('')
  expect(headOf(`${LINE}${lines(199)}\r\n`).entries()).toHaveLength(200)
  expect(headOf(`${LINE}${lines(199)}\r\n`).get('x-198')).toBe('198')
  expect(refusalOf(`${LINE}${lines(200)}\r\n`).status).toBe(431)
  expect(HEAD_BYTES).toBe(16_384)
})

// `^` is left out: asked for, it is the same as `~`.
const NAME = fc.stringMatching(/^[A-Za-z!#$%&'*+._`|~-][A-Za-z0-9!#$%&'*+._`|~-]{0,11}$/)
const VALUE = fc.string({ unit: fc.constantFrom(...'aZ0 \t,;:="\x21\x7e\x80\xe9\xff'), maxLength: 12 })
const OWN = /^(host|expect|connection|content-length|transfer-encoding)$/i

test('for any headers it says what the runtime says', () => {
  const pair = fc.tuple(fc.oneof(NAME, fc.constantFrom('accept', 'X-A', 'x-a', 'X-a')), VALUE)
  const headers = fc.array(
    pair.filter(([name]) => !OWN.test(name)),
    { maxLength: 30 },
  )
  fc.assert(
    fc.property(headers, (pairs) => {
      const head = headOf(`${LINE}${pairs.map(([name, value]) => `${name}:${value}\r\n`).join('')}\r\n`)
      const known = new Headers([['Host', 'a'], ...pairs])
      const names = [...pairs.map(([name]) => name), 'x-b', 'Accept']
      for (const name of names)
        for (const spelled of [name, name.toUpperCase(), name.toLowerCase()]) {
          // `Headers` knows Cookie and the like by other rules than a comma.
          expect(head.get(spelled)).toBe(known.get(spelled))
          expect(head.has(spelled)).toBe(known.has(spelled))
        }
      expect([...new Headers(head.entries())]).toEqual([...known])
    }),
    { numRuns: 300 },
  )
})

test('bytes that are anything are a head or are refused, and nothing else', () => {
  const soup = fc.array(
    fc.constantFrom(
      'GET ',
      '/',
      ' HTTP/1.1',
      '\r\n',
      '\r',
      '\n',
      'Host',
      ':',
      ' ',
      'a',
      '\x00',
      ',',
      'Content-Length',
      '5',
      '\xff',
    ),
    { maxLength: 30 },
  )
  fc.assert(
    fc.property(soup, (parts) => {
      try {
        headOf(`${parts.join('')}\r\n\r\n`)
      } catch (error) {
        expect(error).toBeInstanceOf(MalformedRequest)
      }
    }),
    { numRuns: 2_000 },
  )
})
