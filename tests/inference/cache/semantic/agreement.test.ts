import { expect, test } from 'bun:test'
import { agreementOf } from '../../../../src/inference/cache/semantic/agreement.ts'

test('two answers agree when they are equal but for space, or near by the same vectors', () => {
  const [a, b, c] = [Int8Array.of(100, 0), Int8Array.of(100, 20), Int8Array.of(0, 100)]
  expect(agreementOf('Paris.', ' Paris.\n', null, 0.85)).toBe('equal')
  expect(agreementOf('Paris.', 'It is Paris.', [a, b], 0.85)).toBe('similar')
  expect(agreementOf('Paris.', 'It is Rome.', [a, c], 0.85)).toBe('differs')
  expect(agreementOf('Paris.', 'Rome.', null, 0.85)).toBe('differs')
  expect(agreementOf('a', 'b', [a, Int8Array.of(1, 2, 3)], 0)).toBe('differs')
})
