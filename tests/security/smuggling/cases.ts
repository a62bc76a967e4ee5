// Streams of bytes of a client, drawn from a seed: requests of which two readers may differ about where one ends and
// the next begins.

/** Random numbers from a seed, always the same ones. */
export class Draw {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** From 0 to before 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit)
  }

  of<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!
  }

  chance(part: number): boolean {
    return this.next() < part
  }
}

const METHODS = ['GET', 'POST', 'POST', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH', 'get', 'QUUX', 'GE T']
const TARGETS = ['/', '/a', '/a?b=c', '/%41', '*', 'http://a/b', '/a#b', '/é', '/a b', '//', '/\x7f', '/a\t']
const VERSIONS = [
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.1',
  'HTTP/1.0',
  'HTTP/1.2',
  'HTTP/2.0',
  'http/1.1',
  'HTTP/1.1 ',
]
const LINE_ENDS = ['\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\n', '\r', '\r\r\n', '\n\r\n']
const SPACES = ['', ' ', ' ', ' ', '\t', '  ', '\x0b', '\x00', '\xa0']
const LENGTH_NAMES = [
  'Content-Length',
  'content-length',
  'Content-Length ',
  'Content_Length',
  ' Content-Length',
  'CONTENT-LENGTH',
]
const CODING_NAMES = [
  'Transfer-Encoding',
  'transfer-encoding',
  'Transfer-Encoding ',
  'Transfer_Encoding',
  'Transfer-Encoding\t',
]
const CODINGS = [
  'chunked',
  'Chunked',
  'chunked, chunked',
  'identity',
  'gzip, chunked',
  'chunked, identity',
  'xchunked',
  ' chunked ',
  '"chunked"',
  'chunked;a=b',
  '',
  ',chunked',
  'chunked,',
  '\x0bchunked',
  'chun\r\n ked',
]
const OTHERS = [
  'X-A: 1',
  'X-B:',
  'X-C: a, b',
  'Connection: keep-alive',
  'Connection: close',
  'Expect: 100-continue',
  'X-D: é',
  ': a',
  'X E: 1',
  'X-F',
  'X-G: a\r\n b',
  'X-H: a\x00b',
  'X-I: a\rb',
  'Host: b',
  'Upgrade: h2c',
  'X-J:\ta\t',
  'Trailer: X-A',
]
const SIZES = ['', ';a', ';a=b', ';a="b"', ' ;a', ' ', '\t', ';a\n', ';\x00', ';a\rb', 'g', '_', '.0']

const lengthsOf = (draw: Draw, length: number): string =>
  draw.of([
    `${length}`,
    `${length}`,
    `${length}`,
    `${length + 1}`,
    `${Math.max(0, length - 1)}`,
    '0',
    `+${length}`,
    `-${length}`,
    `0${length}`,
    `${length} `,
    `${length}, ${length}`,
    `0x${length}`,
    `${length}.0`,
    '',
    '1e1',
    '99999999999999999999',
    `${length}\t`,
    `${length};a`,
  ])

const chunkedBody = (draw: Draw, data: string): string => {
  let text = ''
  for (let at = 0; at < data.length; ) {
    const size = 1 + draw.below(data.length - at)
    const odd = draw.chance(0.06)
    const shown = odd
      ? draw.of([
          `${size.toString(16)}`,
          `0${size.toString(16)}`,
          `${(size + 1).toString(16)}`,
          `-${size}`,
          `0x${size.toString(16)}`,
          '',
          'ffffffffffffffff1',
          `${size.toString(16).toUpperCase()}`,
        ])
      : size.toString(16)
    const end = draw.chance(0.05) ? draw.of(LINE_ENDS) : '\r\n'
    const close = draw.chance(0.05) ? draw.of(['\r\n', '\n', '', '\r', 'x\r\n', '\r\n\r\n']) : '\r\n'
    text += `${shown}${draw.chance(0.15) ? draw.of(SIZES) : ''}${end}${data.slice(at, at + size)}${close}`
    at += size
  }
  const trailers = draw.chance(0.15)
    ? draw.of([
        'X-T: 1\r\n',
        'Content-Length: 5\r\n',
        'X-T : 1\r\n',
        'X-T\r\n',
        ' X: 1\r\n',
        'Transfer-Encoding: chunked\r\n',
        'X: \x00\r\n',
      ])
    : ''
  return `${text}${draw.chance(0.05) ? draw.of(['00', '0;a', '0 ', '', '000000', '0\t']) : '0'}${draw.chance(0.04) ? draw.of(LINE_ENDS) : '\r\n'}${trailers}${draw.chance(0.04) ? draw.of(LINE_ENDS) : '\r\n'}`
}

const HIDDEN = 'GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n'

const request = (draw: Draw): string => {
  const isOdd = draw.chance(0.25)
  const method = isOdd ? draw.of(METHODS) : draw.of(METHODS.slice(0, 9))
  const target = isOdd ? draw.of(TARGETS) : draw.of(TARGETS.slice(0, 4))
  const version = isOdd ? draw.of(VERSIONS) : 'HTTP/1.1'
  const data = draw.of(['', 'a', 'abc', 'a=b&c=d', HIDDEN, `\r\n${HIDDEN}`, '0\r\n\r\n', `0\r\n\r\n${HIDDEN}`])
  const lines = draw.chance(0.97)
    ? [`Host:${draw.chance(0.05) ? draw.of(SPACES) : ' '}${draw.of(['a', 'a', 'a:80', '[::1]', 'a,b', ''])}`]
    : []
  let body = ''
  const form = draw.below(10)
  if (form < 3) {
    lines.push(
      `${draw.chance(0.1) ? draw.of(LENGTH_NAMES) : 'Content-Length'}:${draw.chance(0.1) ? draw.of(SPACES) : ' '}${draw.chance(0.3) ? lengthsOf(draw, data.length) : data.length}`,
    )
    body = data
  } else if (form < 6) {
    lines.push(
      `${draw.chance(0.1) ? draw.of(CODING_NAMES) : 'Transfer-Encoding'}:${draw.chance(0.1) ? draw.of(SPACES) : ' '}${draw.chance(0.2) ? draw.of(CODINGS) : 'chunked'}`,
    )
    body = chunkedBody(draw, data)
  } else if (form < 8) {
    const both = [`Content-Length: ${lengthsOf(draw, data.length)}`, `Transfer-Encoding: ${draw.of(CODINGS)}`]
    if (draw.chance(0.3)) both.push(`Content-Length: ${lengthsOf(draw, data.length)}`)
    lines.push(...(draw.chance(0.5) ? both.reverse() : both))
    body = draw.chance(0.5) ? data : chunkedBody(draw, data)
  }
  for (let more = draw.below(4); more > 0; more--)
    lines.splice(draw.below(lines.length + 1), 0, draw.of(isOdd ? OTHERS : OTHERS.slice(0, 7)))
  const end = () => (draw.chance(isOdd ? 0.1 : 0) ? draw.of(LINE_ENDS) : '\r\n')
  return `${method} ${target} ${version}${end()}${lines.map((line) => line + end()).join('')}${end()}${body}`
}

const BYTES = '\r\n\t \0:;,0a\x7f\x80\xffG'

/** A byte is taken out, put in, or replaced. */
const mutated = (draw: Draw, text: string): string => {
  const at = draw.below(text.length + 1)
  const byte = BYTES[draw.below(BYTES.length)]!
  const way = draw.below(3)
  return text.slice(0, at) + (way === 0 ? '' : byte) + text.slice(way === 1 ? at : at + 1)
}

/** One connection: one to three requests, cut into pieces anywhere; each character is a byte. */
export const caseOf = (draw: Draw): readonly Buffer[] => {
  let text = ''
  for (let count = 1 + draw.below(3); count > 0; count--) text += request(draw)
  if (draw.chance(0.3)) for (let count = 1 + draw.below(2); count > 0; count--) text = mutated(draw, text)
  const bytes = Buffer.from(text.replaceAll('é', '\xc3\xa9'), 'latin1')
  const cuts = draw.chance(0.6) ? [] : Array.from({ length: 1 + draw.below(3) }, () => draw.below(bytes.length + 1))
  const edges = [0, ...cuts.sort((one, other) => one - other), bytes.length]
  return edges.slice(1).flatMap((edge, i) => (edge > edges[i]! ? [bytes.subarray(edges[i], edge)] : []))
}
