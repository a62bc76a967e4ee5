import { expect, test } from 'bun:test'
import { lastUses } from '../../../src/state/indexes/last-uses.ts'

test('the last use of a key, null for one that was not used', () => {
  const uses = lastUses()
  expect(uses.lastUsedAt('key_1')).toBeNull()
  uses.used('key_1', 1_000)
  uses.used('key_2', 2_000)
  uses.used('key_1', 3_000)
  expect([uses.lastUsedAt('key_1'), uses.lastUsedAt('key_2')]).toEqual([
    '1970-01-01T00:00:03.000Z',
    '1970-01-01T00:00:02.000Z',
  ])
})

test('a key in use is remembered however many others come; those long unused are forgotten', () => {
  const uses = lastUses(4)
  uses.used('key_old', 1)
  for (let i = 0; i < 20; i++) {
    uses.used(`key_${i}`, 10 + i)
    uses.used('key_busy', 10 + i)
  }
  expect(uses.lastUsedAt('key_busy')).toBe(new Date(29).toISOString())
  expect(uses.lastUsedAt('key_old')).toBeNull()
  for (const id of ['key_17', 'key_18', 'key_19']) expect(uses.lastUsedAt(id)).not.toBeNull()
})
