import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type EntrySubject, type Flush, FlushBook, isCovered } from '../../../src/inference/cache/flush.ts'

const ENTRY: EntrySubject = {
  tenantId: 'ten_a',
  mode: 'semantic',
  model: 'GPT-Small',
  provider: 'acme',
  endpoint: 'chat',
  keyId: 'key_1',
}
const flush = (scope: Flush['scope'], target: string | null = null, tenantId: string | null = null): Flush => ({
  scope,
  tenantId,
  target,
})

describe('a flush', () => {
  test.each<[Flush, boolean]>([
    [flush('all'), true],
    [flush('all', null, 'ten_a'), true],
    [flush('all', null, 'ten_b'), false],
    [flush('tenant', null, 'ten_a'), true],
    [flush('tenant', null, 'ten_b'), false],
    [flush('tenant'), false],
    [flush('model', 'gpt-small'), true],
    [flush('model', 'gpt-small', 'ten_b'), false],
    [flush('model', 'gpt'), false],
    [flush('model'), false],
    [flush('provider', 'ACME'), true],
    [flush('provider', 'other'), false],
    [flush('endpoint', 'chat'), true],
    [flush('endpoint', 'images'), false],
    [flush('key', 'key_1'), true],
    [flush('key', 'key_2'), false],
    [flush('semantic'), true],
    [flush('prefix'), false],
  ])('%j covers: %p', (each, covers) => {
    expect(isCovered(each, ENTRY)).toBe(covers)
  })

  test('of an endpoint scope does not cover an entry without one', () => {
    expect(isCovered(flush('endpoint', 'chat'), { ...ENTRY, endpoint: null })).toBe(false)
    expect(isCovered(flush('endpoint', null), { ...ENTRY, endpoint: null })).toBe(false)
  })
})

describe('the book of flushes', () => {
  test('an entry is dead when its request was admitted below a flush that covers it, however late it is written', () => {
    const book = new FlushBook()
    book.add(flush('model', 'gpt-small'), 7)
    expect(book.isDead(ENTRY, 6)).toBe(true)
    expect(book.isDead(ENTRY, 7)).toBe(false)
    expect(book.isDead({ ...ENTRY, model: 'other' }, 0)).toBe(false)
    book.add(flush('model', 'GPT-SMALL'), 9)
    expect(book.isDead(ENTRY, 8)).toBe(true)
    expect(book.size).toBe(1)
  })

  test('agrees with what each flush covers by itself', () => {
    const name = fc.constantFrom('a', 'B', 'b', 'c')
    const nullable = fc.option(name)
    const mode = fc.constantFrom('exact' as const, 'prefix' as const, 'semantic' as const)
    const subject = fc.record({ tenantId: name, mode, model: name, provider: name, endpoint: nullable, keyId: name })
    const targeted = fc.record({
      scope: fc.constantFrom('model' as const, 'provider' as const, 'endpoint' as const, 'key' as const),
      tenantId: nullable,
      target: name,
    })
    const wide = fc.record({
      scope: fc.constantFrom('all' as const, 'tenant' as const, 'prefix' as const, 'semantic' as const),
      tenantId: nullable,
      target: fc.constant(null),
    })
    fc.assert(
      fc.property(
        fc.array(fc.oneof(targeted, wide), { maxLength: 6 }),
        subject,
        fc.nat({ max: 7 }),
        (all, entry, at) => {
          const book = new FlushBook()
          for (const [i, each] of all.entries()) book.add(each, i + 1)
          expect(book.isDead(entry, at)).toBe(all.some((each, i) => at < i + 1 && isCovered(each, entry)))
        },
      ),
      { numRuns: 5_000 },
    )
  })

  test('a flush of everything takes the place of all before it', () => {
    const book = new FlushBook()
    book.add(flush('key', 'key_9'), 3)
    book.add(flush('all'), 5)
    expect([book.size, book.isDead(ENTRY, 4), book.isDead(ENTRY, 5)]).toEqual([0, true, false])
  })

  test('is bounded: what it forgets kills more, never less', () => {
    const book = new FlushBook()
    for (let height = 1; height <= 10_000; height++) book.add(flush('key', `key_x${height}`), height)
    expect(book.size).toBe(4_096)
    expect(book.isDead({ ...ENTRY, keyId: 'key_x1' }, 0)).toBe(true)
    expect(book.isDead({ ...ENTRY, keyId: 'key_x10000' }, 9_999)).toBe(true)
    expect(book.isDead(ENTRY, 10_000)).toBe(false)
  })
})
