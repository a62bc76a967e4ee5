import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { FrameDamaged, type SseEvent, SseTooLarge } from '../../../src/lib/text/sse.ts'
import { createAwsEventStreamParser } from '../../../src/providers/bedrock/aws-event-stream.ts'
import { awsEvent, awsEventFrame, awsException } from './aws-event-frame.ts'

const parse = (bytes: Uint8Array, cuts: readonly number[] = [], maxFrameBytes?: number): SseEvent[] => {
  const parser = createAwsEventStreamParser(maxFrameBytes)
  const edges = [0, ...[...cuts].sort((a, b) => a - b), bytes.length]
  const events: SseEvent[] = []
  for (let i = 1; i < edges.length; i++) events.push(...parser.push(bytes.subarray(edges[i - 1], edges[i])))
  return [...events, ...parser.end()]
}
const concat = (...frames: Uint8Array[]) => new Uint8Array(Buffer.concat(frames))

// Made from the description of the format, with the CRC-32 of another language, so that reader and writer cannot both
// be wrong: lengths, their checksum, one string header, the payload `{}`, the checksum of all.
const FRAME = '00000029000000172a2017db0b3a6576656e742d747970650700086d657461646174617b7d0c8e011b'

test('a frame as the format describes it', () => {
  expect(parse(Uint8Array.fromHex(FRAME))).toEqual([{ event: 'metadata', data: '{}' }])
  expect(awsEventFrame({ ':event-type': 'metadata' }, '{}').toHex()).toBe(FRAME)
})

test('events, exceptions, unmodelled errors, frames without a type', () => {
  const bytes = concat(
    awsEvent('messageStart', { role: 'assistant' }),
    awsEventFrame({}, ''),
    awsException('throttlingException', { message: 'slow down' }),
    awsEventFrame({ ':message-type': 'error', ':error-code': 'InternalFailure', ':error-message': 'größer' }, ''),
  )
  expect(parse(bytes)).toEqual([
    { event: 'messageStart', data: '{"role":"assistant"}' },
    { event: null, data: '' },
    { event: 'throttlingException', data: '{"message":"slow down"}' },
    { event: 'error', data: '{"error":{"code":"InternalFailure","message":"größer"}}' },
  ])
})

test('headers of every other type are passed over', () => {
  const sizes = [0, 0, 1, 2, 4, 8, 3, 0, 8, 16]
  const others = [0, 1, 2, 3, 4, 5, 6, 8, 9].map((type) => [`h${type}`, { type, value: new Uint8Array(sizes[type]!) }])
  const bytes = awsEventFrame({ ...Object.fromEntries(others), ':event-type': 'last' }, 'x')
  expect(parse(bytes)).toEqual([{ event: 'last', data: 'x' }])
})

test('cut anywhere, it is the same stream', () => {
  const event = fc.tuple(
    fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme' }),
    fc.string({ maxLength: 300, unit: 'grapheme' }),
  )
  fc.assert(
    fc.property(fc.array(event, { maxLength: 8 }), fc.array(fc.nat(), { maxLength: 30 }), (given, cuts) => {
      const bytes = concat(...given.map(([name, data]) => awsEvent(name, data)))
      const places = cuts.map((cut) => cut % (bytes.length + 1))
      expect(parse(bytes, places)).toEqual(given.map(([event, data]) => ({ event, data })))
    }),
  )
  const bytes = concat(awsEvent('a', 'é'.repeat(5_000)), awsEvent('b', ''))
  const each = Array.from(bytes, (_, i) => i)
  expect(parse(bytes, each).map(({ event, data }) => [event, data.length])).toEqual([
    ['a', 5_000],
    ['b', 0],
  ])
})

describe('what is wrong ends the stream', () => {
  const good = awsEvent('contentBlockDelta', { delta: { text: 'hello' } })

  test('every single flipped bit is noticed', () => {
    for (let bit = 0; bit < good.length * 8; bit++) {
      const bytes = good.slice()
      bytes[bit >> 3]! ^= 1 << (bit & 7)
      expect(() => parse(bytes)).toThrow(FrameDamaged)
    }
  })

  test('wrong lengths are noticed before the frame is waited for', () => {
    const bytes = good.slice(0, 12)
    bytes[0] = 1
    expect(() => parse(bytes)).toThrow(FrameDamaged)
    const lengths = Buffer.alloc(12)
    lengths.writeUInt32BE(20, 0)
    lengths.writeUInt32BE(5, 4)
    lengths.writeUInt32BE(Bun.hash.crc32(lengths.subarray(0, 8)), 8)
    expect(() => parse(lengths)).toThrow(FrameDamaged)
  })

  test('headers that lead out of their frame', () => {
    for (const value of [new Uint8Array([0xff, 0xff, 1]), new Uint8Array([1])])
      expect(() => parse(awsEventFrame({ a: { type: 7, value } }, ''))).toThrow(FrameDamaged)
    expect(() => parse(awsEventFrame({ a: { type: 10, value: new Uint8Array(1) } }, ''))).toThrow(FrameDamaged)
  })

  test('a frame beyond the bound is refused at its first bytes; nothing of an unended one is given out', () => {
    expect(() => parse(good.subarray(0, 12), [], 64)).toThrow(SseTooLarge)
    expect(parse(good, [], good.length)).toHaveLength(1)
    expect(parse(good.subarray(0, good.length - 1))).toEqual([])
  })
})
