import { expect, test } from 'bun:test'
import { headerValue } from '../../../src/lib/http-server/last-header-values.ts'

const of = (value: string, name = 'x-test'): string => {
  const bytes = Buffer.from(`${name}: ${value}\r\n`, 'latin1')
  return headerValue(bytes, name.length + 2, name.length + 2 + value.length, name)
}

test('what is told is what stands there, whatever was sent before', () => {
  for (const value of ['a', 'a', 'b', '', 'ab', 'ba', 'ab', '\xe9', 'x'.repeat(256), 'x'.repeat(257), 'x'.repeat(256)])
    expect(of(value)).toBe(value)
  expect(of('a', 'x-one')).toBe('a')
  expect(of('b', 'x-two')).toBe('b')
  expect(of('a', 'x-one')).toBe('a')
})

test('more names than are remembered', () => {
  for (let round = 0; round < 2; round++)
    for (let i = 0; i < 200; i++) expect(of(`v${i % 7}`, `x-name-${i}`)).toBe(`v${i % 7}`)
})
