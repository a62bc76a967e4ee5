import { expect, test } from 'bun:test'
import { scrub } from '../../../src/providers/shared/scrub.ts'

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

test("the target's own secret is cut in every form in which a provider may say it back", () => {
  for (const secret of ['Zq9-odd-secret', 'Kö"n/ig+12?=&\\x', 'CANARYcred0123456789abcd', 'AKID9:Wx/yz+secretpart']) {
    const bytes = Buffer.from(secret)
    const forms = [
      secret,
      secret.toLowerCase(),
      secret.toUpperCase(),
      bytes.toString('base64'),
      bytes.toString('base64url'),
      Buffer.from(`Bearer ${secret}`).toString('base64'),
      Buffer.from(`a:${secret}\n`).toString('base64url'),
      Buffer.from(`ab${secret}zz`).toString('base64').toLowerCase(),
      bytes.toString('hex'),
      bytes.toString('hex').toUpperCase(),
      encodeURIComponent(secret),
      encodeURIComponent(encodeURIComponent(secret)),
      [...bytes].map((byte) => `%${byte.toString(16)}`).join(''),
      JSON.stringify(JSON.stringify(secret)),
      [...secret].map((char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`).join(''),
    ]
    for (const form of forms) {
      const shown = scrub(`you sent ${form} to us`, { ...reading, secret })
      expect(shown).toContain('[redacted]')
      // Of what stands around an encoded secret ("Bearer ") something may be left.
      const left = shown.replaceAll('[redacted]', '').replace(/^you sent|to us$/g, '')
      expect({ form, left, isGone: left.replaceAll(/[^\w+/-]/g, '').length <= 9 }).toEqual({ form, left, isGone: true })
    }
  }
})

test('a word that stands for no key is cut as it is written only', () => {
  const shown = scrub('EMPTY is no key, and messages must not be empty', { ...reading, secret: 'EMPTY' })
  expect(shown).toBe('[redacted] is no key, and messages must not be empty')
})

test('a long run of what may begin an escape is walked once', () => {
  // From each backslash all others: 256 Ki took ten seconds, in which nobody else was served.
  for (const run of ['\\', '%25', '\\u', '%'])
    expect(scrub(`said ${run.repeat(1_000_000)}`, { ...reading, secret: '"odd"-secret' })).toStartWith('said')
})

test('a text that only looks alike stays as it is', () => {
  for (const text of ['100% of the quota is used', 'a path like C:\\models\\x', 'odd secret', 'Zq9'])
    expect(scrub(text, reading)).toBe(text)
})
