import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { readDigits, sameDigits, writeDigits } from '../../../src/lib/packed-table/hex-digits.ts'

test('bytes become the digits that the platform writes, and again the bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), fc.nat(5), (bytes, at) => {
      const digits = Buffer.from(bytes).toString('hex')
      const text = Buffer.alloc(at + bytes.length * 2)
      writeDigits(bytes, 0, bytes.length, text, at)
      expect(text.toString('latin1', at)).toBe(digits)
      const again = new Uint8Array(at + bytes.length)
      expect(readDigits(`${'-'.repeat(at)}${digits}`, at, digits.length, again, at)).toBe(true)
      expect([...again.subarray(at)]).toEqual([...bytes])
      expect(sameDigits(digits, again, at, bytes.length)).toBe(true)
      for (const other of [`${digits}0`, digits.slice(1), digits.replace(/.$/, 'g'), digits.replace(/^./, 'A')])
        if (other !== digits) expect(sameDigits(other, again, at, bytes.length)).toBe(false)
    }),
  )
})

test('only lower-case digits are digits', () => {
  for (let code = 0; code < 300; code++) {
    const character = String.fromCharCode(code)
    for (const text of [`0${character}`, `${character}0`])
      expect(readDigits(text, 0, 2, new Uint8Array(1), 0)).toBe(/^[0-9a-f]$/.test(character))
  }
})
