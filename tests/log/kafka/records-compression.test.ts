// Record batches that other producers may compress: written by the Java client (Kafka 4.1) and with the bare Snappy
// library of other clients.
import { describe, expect, test } from 'bun:test'
import { unpackLz4 } from '../../../src/lib/compression/lz4.ts'
import { OutputBuffer } from '../../../src/lib/compression/output-buffer.ts'
import { unpackSnappy } from '../../../src/lib/compression/snappy.ts'
import { unpackRecords } from '../../../src/log/kafka/records.ts'

const LENGTH = 3_000

/** What was packed: lines with long runs between numbers. */
const content = (): string => {
  let text = ''
  for (let seed = 1, line = 0; text.length < LENGTH; line++) {
    seed = (seed * 48_271) % 2_147_483_647
    text += `{"tenant":"${seed % 97}","n":${line}}${'a'.repeat(seed % 400)}`
  }
  return text.slice(0, LENGTH)
}

const PACKED = {
  'lz4 of the Java client': [
    3,
    'BCJNGGBAgtgAAAD/B3sidGVuYW50IjoiNjIiLCJuIjowfWEBAPsHJAEiOTMkAR8xJAGwB9cAEzPXAB8y1wBEB2sAEjFBAR8zagBEDwIAhAcBARM3ZwMfNAIB2wACAAcGARMxBgEfNQYBQQdoACIyMHACHzZoAEEPAgA7B7YAIjM1tgAfN7YAVwh+ABI0fgAfOH4AVw8CAKcHOAEE1AIfOTgBDQc0ABM26gEfMXYH/g8CAFEHiQEEcwMfMdsHsQkCAAflABI42QMfMegHRQ8CAPIHcAETNeYGHzHvCDlQYWFhYWEAAAAA',
  ],
  'snappy of the Java client': [
    2,
    'glNOQVBQWQAAAAABAAAAAQAAAUu4F1R7InRlbmFudCI6IjYyIiwibiI6MH1h/gEA/gEA/gEA/gEANgEABHsiNSQEOTMpJAAx/iQB/iQB7iQBLSQEeyIV1wAzDdcAMv7XAFrXAAR7IhVrADEpQQAz/moAWmoA/gEA/gEAWgEABHsiNQEAN21nADT+AgH+AgH+AgG2AgEBAQR7IjUGADEtBgA1/gYBTgYBBHsiFWgEMjBJcAA2/mgATmgA/gEANgEABHsiFbYEMzUJtgA3/rYAprYABHsiGX4ANAl+ADj+fgCmfgD+AQD+AQDmAQAEeyI1OFHUADl+OAEEeyIVNAA2LeoAMf52B/52B/52B/52B0J2B/4BAI4BAAR7IjWJcXMAMf7bB/7bB/7bB+HbMgEABHsiFeUAOGnZADH+6Ade6Af+AQD+AQD+AQD+AQAFAQR7IjVwADXN5gAx/u8IQu8I',
  ],
  'bare snappy, as librdkafka writes it': [
    2,
    'uBdUeyJ0ZW5hbnQiOiI2MiIsIm4iOjB9Yf4BAP4BAP4BAP4BADYBAAR7IjUkBDkzKSQAMf4kAf4kAe4kAS0kBHsiFdcAMw3XADL+1wBa1wAEeyIVawAxKUEAM/5qAFpqAP4BAP4BAFoBAAR7IjUBADdtZwA0/gIB/gIB/gIBtgIBAQEEeyI1BgAxLQYANf4GAU4GAQR7IhVoBDIwSXAANv5oAE5oAP4BADYBAAR7IhW2BDM1CbYAN/62AKa2AAR7Ihl+ADQJfgA4/n4Apn4A/gEA/gEA5gEABHsiNThR1AA5fjgBBHsiFTQANi3qADH+dgf+dgf+dgf+dgdCdgf+AQCOAQAEeyI1iXFzADH+2wf+2wf+2wfh2zIBAAR7IhXlADhp2QAx/ugHXugH/gEA/gEA/gEA/gEABQEEeyI1cAA1zeYAMf7vCELvCA==',
  ],
} as const
const bytesOf = (base64: string) => Uint8Array.from(Buffer.from(base64, 'base64'))
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)

describe('batches that others packed', () => {
  for (const [name, [codec, base64]] of Object.entries(PACKED)) {
    test(`${name} is read`, () => expect(text(unpackRecords(codec, bytesOf(base64), 0))).toBe(content()))

    test(`${name}, cut off anywhere or changed, is an error or other bytes, never an endless read`, () => {
      const whole = bytesOf(base64)
      for (let at = 0; at < whole.length; at++) {
        const changed = whole.slice()
        changed[at]! ^= 0x55
        for (const packed of [whole.subarray(0, at), changed]) {
          try {
            expect(unpackRecords(codec, packed, 9)).toBeInstanceOf(Uint8Array)
          } catch (error) {
            expect(String(error)).toContain('record batch at offset 9: compression')
          }
        }
      }
    })
  }

  test('gzip and zstd are read', () => {
    const packed = { 1: Bun.gzipSync(content()), 4: Bun.zstdCompressSync(content()) }
    for (const [codec, bytes] of Object.entries(packed)) {
      expect(text(unpackRecords(Number(codec), bytes, 0))).toBe(content())
    }
  })

  test('what would unpack to more than is taken is refused before it is made', () => {
    const zeros = new Uint8Array(65 * 1_048_576)
    const packed = { 1: Bun.gzipSync(zeros), 4: Bun.zstdCompressSync(zeros) }
    for (const [codec, bytes] of Object.entries(packed)) {
      expect(() => unpackRecords(Number(codec), bytes, 7)).toThrow('offset 7')
    }
    for (const unpack of [unpackLz4, unpackSnappy]) {
      const base64 = unpack === unpackLz4 ? PACKED['lz4 of the Java client'][1] : PACKED['snappy of the Java client'][1]
      expect(unpack(bytesOf(base64), LENGTH).length).toBe(LENGTH)
      expect(() => unpack(bytesOf(base64), LENGTH - 1)).toThrow(`more than ${LENGTH - 1} bytes`)
    }
  })

  test('a compression that Kafka does not know is named', () =>
    expect(() => unpackRecords(5, new Uint8Array(3), 2)).toThrow('compression 5 is not known'))

  test('a copy may reach into what it writes, and not before the beginning', () => {
    const out = new OutputBuffer(0, 100)
    out.append(new Uint8Array([1, 2]))
    out.repeat(2, 5)
    expect([...out.bytes()]).toEqual([1, 2, 1, 2, 1, 2, 1])
    expect(() => out.repeat(8, 1)).toThrow('never written')
    expect(() => out.repeat(1, 94)).toThrow('more than 100')
  })
})
