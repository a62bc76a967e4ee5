import { expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { Hmac256 } from '../../../src/lib/crypto/hmac.ts'

test('the MAC is that of the platform, message after message', () => {
  const messages = fc.array(fc.uint8Array({ maxLength: 300 }), { minLength: 1, maxLength: 5 })
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), messages, fc.uint8Array({ maxLength: 10 }), (key, each, rest) => {
      const macs = new Hmac256(key, 310)
      for (const message of each)
        expect(Buffer.from(macs.of(Buffer.concat([message, rest]), message.length)).toString('hex')).toBe(
          createHmac('sha256', key).update(message).digest('hex'),
        )
    }),
  )
})

test('a key that would have to be hashed, and a message beyond the bound, are refused', () => {
  expect(() => new Hmac256(new Uint8Array(65), 10)).toThrow(RangeError)
  expect(() => new Hmac256(new Uint8Array(32), 10).of(new Uint8Array(11), 5)).toThrow(RangeError)
})
