import { expect, test } from 'bun:test'
import { scrub } from '../../src/providers/scrub.ts'

const reading = { secret: 'Zq9-odd-secret', baseUrl: 'http://models.example:8000/v1' }

test('what a client named, and plain numbers, are not taken for secrets', () => {
  for (const text of [
    'no tool api_lookup_user',
    'key_value_store is unknown',
    'api_version is missing',
    'at most 8000 tokens',
    'password must be a text, and so must the token: nothing else',
    'max_tokens:500 is too large',
    'max_tokens:16384 is too large',
  ])
    expect(scrub(text, reading)).toBe(text)
})

test('keys, secrets and addresses are', () => {
  for (const text of ['api-key1234567', 'key-*******abcd', 'sk-abcdefgh', `api_${'a'.repeat(40)}`, 'Zq9-odd-secret'])
    expect(scrub(`said ${text} here`, reading)).toBe('said [redacted] here')
  expect(scrub('to models.example:8000 failed', reading)).toBe('to [host] failed')
  expect(scrub('to models.example failed', reading)).toBe('to [host] failed')
})

test('names of places inside are, and what a label says to be secret', () => {
  for (const place of ['localhost', 'localhost:11434', 'redis:6379', 'redis.prod:6379'])
    expect(scrub(`to ${place} failed`, reading)).toBe('to [host] failed')
  for (const [text, kept] of [
    ['password=swordfish', 'password=[redacted]'],
    ['x-api-key: deadbeef', 'x-api-key: [redacted]'],
    ['api_key=hunterhunterhunter', 'api_key=[redacted]'],
    ['{"secret":"swordfish"}', '{"secret":"[redacted]"}'],
  ])
    expect(scrub(`with ${text} sent`, reading)).toBe(`with ${kept} sent`)
})

test('half a key at the cut of a long text is not left over', () => {
  const keys = Array.from({ length: 44 }, (_, i) => `Ab${i}${'x'.repeat(41)}`)
  const shown = scrub(`${keys.join(' ')} Zz9${'y'.repeat(60)}`, reading)
  expect(shown.replaceAll('[redacted]', '').replaceAll('…', '').trim()).toBe('')
})
