import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { DigestCache, MAX_CACHED_DIGESTS } from '../../../src/lib/collections/digest-cache.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'

/** Few, and of few prints: some differ in their last digit only. */
const digest = fc.oneof(
  fc.nat(20).map((number) => sha256Hex(`${number}`)),
  fc.nat(9).map((digit) => `${sha256Hex('alike').slice(0, 63)}${digit}`),
  fc.constantFrom('', 'zz', '0'.repeat(64)),
)

test('never answers what was not the last that was put there, and nothing after it was deleted', () => {
  const step = fc.record({ do: fc.constantFrom('add', 'delete', 'get', 'clear'), digest })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const recent = new DigestCache<{ number: number }>()
      const model = new Map<string, { number: number }>()
      for (const [number, one] of steps.entries()) {
        if (one.do === 'clear') {
          recent.clear()
          model.clear()
        } else if (one.do === 'delete') {
          recent.delete(one.digest)
          model.delete(one.digest)
        } else if (one.do === 'add' && recent.get(one.digest) === null) {
          recent.add(one.digest, { number })
          model.set(one.digest, { number })
          expect(recent.get(one.digest)).toEqual({ number })
        }
        const held = recent.get(one.digest)
        if (held !== null) expect(held).toEqual(model.get(one.digest)!)
      }
    }),
  )
})

test('holds nearly all of half as many as it has room for, and no more than it has room for', () => {
  const recent = new DigestCache<{ digest: string }>()
  const held = (digests: readonly string[]) => digests.filter((one) => recent.get(one)?.digest === one).length
  const digestsOf = (count: number) => Array.from({ length: count }, (_, number) => sha256Hex(`key ${number}`))
  const some = digestsOf(MAX_CACHED_DIGESTS / 2)
  for (const one of some) recent.add(one, { digest: one })
  expect(held(some)).toBeGreaterThan(some.length * 0.9)
  const many = digestsOf(MAX_CACHED_DIGESTS * 4)
  for (const one of many) if (recent.get(one) === null) recent.add(one, { digest: one })
  expect(held(many)).toBeGreaterThan(MAX_CACHED_DIGESTS * 0.9)
  expect(held(many)).toBeLessThanOrEqual(MAX_CACHED_DIGESTS)
})
