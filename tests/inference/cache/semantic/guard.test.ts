import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { readText, unlikeBy } from '../../../../src/inference/cache/semantic/guard.ts'
import { mostAlike } from '../../../../src/inference/cache/semantic/likeness.ts'
import { tokensOf } from '../../../../src/inference/cache/semantic/tokens.ts'
import { VectorIndex } from '../../../../src/inference/cache/semantic/vector-index.ts'

const unlike = (left: string, right: string) => unlikeBy(readText(left), readText(right))

describe('the guard accepts', () => {
  test.each([
    ['How do I reset my password?', 'how can i reset a password'],
    ['Please tell me the capital of France.', 'What is the capital of France?'],
    ["What's 10 kilometers in miles?", 'What is 10 km in miles?'],
    ['Translate “good night” into French', 'Translate "good night" to French'],
    ['In Python, how do I sort a list?', 'How do I sort a list in Python?'],
    ['What is a zero\u200b-width space?', 'What is a zero-width space?'],
    ['How much is 1,000 dollars?', 'How much is 1000 dollars'],
  ])('%s | %s', (left, right) => {
    expect(unlike(left, right)).toBeNull()
  })
})

describe('the guard refuses', () => {
  test.each([
    ['Convert 5 kg', 'Convert 50 kg', 'content'],
    ['Can I eat this?', 'Can I not eat this?', 'content'],
    ['Fly from London to Paris', 'Fly from Paris to London', 'order'],
    ['Who funds us?', 'Who funds US?', 'content'],
    ['Does Amazon sell books?', 'Does the Amazon sell books?', 'name'],
    ['How do I say May in Polish?', 'How do I say may in Polish?', 'content'],
    ['Where do I buy Polish for Ann?', 'Where do I buy polish for Ann?', 'name'],
    ['Give the keys to Ann', 'Give the keys for Ann', 'relation'],
    ['How do I purchase a house?', 'How do I buy a house?', 'one_word'],
    ['How do I swim?', 'What is swimming?', 'kind'],
    ['What is it?', 'What is that?', 'empty'],
    ['Что такое рекурсия?', 'Что такое рекурсия?', 'script'],
    ['再帰とは何ですか', '再帰とは何ですか', 'script'],
    ['x'.repeat(2_001), 'x'.repeat(2_001), 'script'],
  ])('%s | %s: %s', (left, right, reason) => {
    expect(unlike(left, right)).toBe(reason as never)
  })

  test('a synonym is accepted only in another sentence', () => {
    expect(unlike('How do I purchase a house?', 'What is the best way to buy a house?')).toBeNull()
    expect(unlike('How do I purchase a house?', 'How do I buy a house please?')).toBe('one_word')
  })

  test('any other number, whatever the sentence', () => {
    const number = fc.integer({ min: 0, max: 1_000_000 })
    fc.assert(
      fc.property(
        number,
        number,
        fc.constantFrom('How do I lift # kg?', 'is # enough', 'Plan # days in Peru'),
        (a, b, frame) => {
          const [left, right] = [frame.replace('#', String(a)), frame.replace('#', String(b))]
          expect(unlike(left, right) === null).toBe(a === b)
        },
      ),
      { numRuns: 1_000 },
    )
  })
})

test('any text is read, in time that grows with its length only', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
      const read = readText(text)
      expect(read === null || unlikeBy(read, readText(text)) === null || read.items.length === 0).toBe(true)
    }),
    { numRuns: 2_000 },
  )
  for (const piece of ['a_', '_', 'a.', "a'", '`', '"', '- ', 'a-', '1,', 'http://', '```', "'"]) {
    const startedMs = performance.now()
    tokensOf(piece.repeat(Math.floor(2_000 / piece.length)))
    expect([piece, performance.now() - startedMs < 500]).toEqual([piece, true])
  }
})

describe('the nearest stored message', () => {
  const index = new VectorIndex(1_000_000)
  const vector = Int8Array.of(100, 0, 0)
  const texts = new Map([
    ['a', 'How do I reset my password?'],
    ['b', 'How do I reset my phone?'],
  ])
  index.add('p', 'b', Int8Array.of(100, 0, 0))
  index.add('p', 'a', Int8Array.of(100, 20, 0))
  const query = { partition: 'p', text: 'how can i reset my password', vector, similarity: 0.85 }

  test('is the nearest one that the guard accepts', () => {
    const { hit, refused } = mostAlike(index, { ...query, textOf: (key) => texts.get(key) ?? null })
    expect([hit?.key, refused?.key, refused?.reason]).toEqual(['a', 'b', 'content'])
  })

  test('is none in another partition, below the similarity, or when its entry is gone', () => {
    const textOf = (key: string) => texts.get(key) ?? null
    expect(mostAlike(index, { ...query, partition: 'q', textOf }).hit).toBeNull()
    expect(mostAlike(index, { ...query, similarity: 0.999, textOf }).hit).toBeNull()
    expect(mostAlike(index, { ...query, textOf: () => null }).hit).toBeNull()
    expect(index.size).toBe(0)
  })
})
