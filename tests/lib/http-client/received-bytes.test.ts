// What of an answer is held, and when it is given back.
import { expect, test } from 'bun:test'
import { LARGE_BYTES } from '../../../src/lib/http/large-read-pacing.ts'
import { ReceivedBytes } from '../../../src/lib/http-client/received-bytes.ts'
import { ResponseHead } from '../../../src/lib/http-client/response-head.ts'

class Received extends ReceivedBytes {
  text = () => this.takeText()
  firstText = () => this.takeSinglePieceText()
  some = () => this.takeNext()
  waiting = () => this.waitingBytes
  leave = () => this.freeAll()
}

const isGivenBack = (bytes: Buffer): boolean => bytes.buffer.byteLength === 0

test('a large read is given back once it is text, also where its answer is only a part of it', () => {
  for (const [from, to] of [
    [0, LARGE_BYTES],
    [10, 20],
  ] as const) {
    const read = Buffer.from(new ArrayBuffer(LARGE_BYTES)).fill('a')
    const received = new Received()
    received.take(read, from, to)
    expect(received.text()).toBe('a'.repeat(to - from))
    expect(isGivenBack(read)).toBe(true)
  }
  const large = Buffer.from(new ArrayBuffer(2 * LARGE_BYTES)).fill('b')
  const received = new Received()
  received.take(large.subarray(100, 200), 0, 5)
  expect(received.text()).toBe('bbbbb')
  expect(isGivenBack(large)).toBe(true)
})

test('what is not text beyond doubt is read as before, and given back too', () => {
  const read = Buffer.from(new ArrayBuffer(LARGE_BYTES)).fill('a')
  read[5] = 0xff
  const received = new Received()
  received.take(read, 0, LARGE_BYTES)
  expect(received.firstText()).toBeNull()
  expect(received.waiting()).toBe(LARGE_BYTES)
  expect(received.text()).toBe(`aaaaa\ufffd${'a'.repeat(LARGE_BYTES - 6)}`)
  expect(isGivenBack(read)).toBe(true)
})

test('what nobody will read is given back at once', () => {
  const received = new Received()
  const reads = Array.from({ length: 3 }, () => Buffer.from(new ArrayBuffer(LARGE_BYTES)).fill('a'))
  for (const read of reads) received.take(read, 0, read.length)
  received.leave()
  expect(reads.map(isGivenBack)).toEqual([true, true, true])
  expect(received.waiting()).toBe(0)
})

test('pieces stay in order, however they are read', () => {
  const pieces = Array.from({ length: 12 }, (_, i) => Buffer.alloc(7_000, String.fromCharCode(97 + i)))
  const whole = Buffer.concat(pieces).toString()
  const received = new Received()
  let read = ''
  for (const [i, piece] of pieces.entries()) {
    received.take(piece, 0, piece.length)
    if (i % 4 === 3) read += (received.some() ?? '').toString()
    if (i === 8) read += received.firstText() ?? ''
  }
  for (let some = received.some(); some !== null; some = received.some()) read += some.toString()
  expect(read).toBe(whole)
  expect(received.waiting()).toBe(0)
})

test('the head of an answer does not hold a large read', () => {
  const head = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-More: here'
  const read = Buffer.from(new ArrayBuffer(64 * 1024))
  read.write(`${head}\r\n\r\n`, 100)
  const view = read.subarray(100)
  const parsed = [
    new ResponseHead(view, view.indexOf('\r\n\r\n')),
    new ResponseHead(read.subarray(100, 400), head.length),
  ]
  read.buffer.transfer(0)
  for (const { headers, length } of parsed) {
    expect(length).toBe(5)
    expect(headers).toContainEqual(['x-more', 'here'])
  }
})
