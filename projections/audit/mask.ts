// What the audit must not show of a row: a digest would let a stolen copy be tested against guesses, a sealed secret waits for a stolen key.

const MASK = '[masked]'
const HIDDEN = new Set([
  'digest',
  'name_digest',
  'seeded_digest',
  'sealed',
  'secret',
  'password',
  'password_hash',
  'plaintext',
  'token',
  'mac',
])

/** A copy of the row without what must stay hidden, at any depth. Null stays null. */
export const masked = (value: unknown): unknown => {
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map(masked)
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      HIDDEN.has(name) && member !== null && member !== undefined ? MASK : masked(member),
    ]),
  )
}
