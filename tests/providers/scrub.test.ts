import { expect, test } from 'bun:test'
import { scrub } from '../../src/providers/scrub.ts'

const reading = { secret: 'Zq9-odd-secret', baseUrl: 'http://models.example:8000/v1' }

test('what a client named, and plain numbers, are not taken for secrets', () => {
  for (const text of [
    'no tool api_lookup_user',
    'key_value_store is unknown',
    'api_version is missing',
    'at most 8000 tokens',
  ])
    expect(scrub(text, reading)).toBe(text)
})

test('keys, secrets and addresses are', () => {
  for (const text of ['api-key1234567', 'key-*******abcd', 'sk-abcdefgh', `api_${'a'.repeat(40)}`, 'Zq9-odd-secret'])
    expect(scrub(`said ${text} here`, reading)).toBe('said [redacted] here')
  expect(scrub('to models.example:8000 failed', reading)).toBe('to [host]:[port] failed')
})
