import { expect, test } from 'bun:test'
import { createPasswords } from '../../../src/lib/crypto/passwords.ts'

const passwords = createPasswords()
const now = () => {}

test('argon2id with OWASP’s parameters; right, wrong, composed otherwise, and nobody’s', async () => {
  const hash = await passwords.hash('corréct horse') // é of one character
  expect(hash).toStartWith('$argon2id$v=19$m=19456,t=2,p=1$')
  const is = (password: string, of: string | null) => passwords.verify(password, async () => of, now)
  expect(await is('corréct horse', hash)).toBe(true)
  expect(await is('corre\u0301ct horse', hash)).toBe(true)
  expect(await is('correct horse', hash)).toBe(false)
  expect(await is('corréct horse', null)).toBe(false)
  expect(await is('', null)).toBe(false)
})

test('nobody’s hash costs the same parameters, and is really verified', async () => {
  const seen: string[] = []
  const counted = createPasswords({
    hash: Bun.password.hash,
    verify: async (password, hash, algorithm) => {
      seen.push(String(hash))
      return Bun.password.verify(password, hash, algorithm)
    },
  })
  const real = await counted.hash('some password')
  await counted.verify('x', async () => null, now)
  await counted.verify('x', async () => real, now)
  const parameters = seen.map((hash) => hash.split('$').slice(0, 4).join('$'))
  expect(parameters).toEqual(Array(2).fill('$argon2id$v=19$m=19456,t=2,p=1'))
  expect(seen[0]!.length).toBe(seen[1]!.length)
})

test('what is refused when its turn comes is not hashed, and hands its turn on', async () => {
  let hashes = 0
  const counted = createPasswords({ hash: Bun.password.hash, verify: async () => ++hashes > 0 })
  const refused = () => {
    throw new Error('locked')
  }
  for (let i = 0; i < 5; i++) expect(counted.verify('x', async () => 'h', refused)).rejects.toThrow('locked')
  expect(await counted.verify('x', async () => 'h', now)).toBe(true)
  expect(hashes).toBe(1)
})
