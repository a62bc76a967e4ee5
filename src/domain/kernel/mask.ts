// Fields of a row or an event that must not be shown: a digest would let a stolen copy be tested against guesses, a
// sealed secret is readable with a stolen key.

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

/**
 * A copy of the value without the fields that must stay hidden, at any depth. Null stays null. `sealed`: the
 * replacement of sealed values.
 */
export const masked = (value: unknown, sealed = MASK): unknown => {
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map((member) => masked(member, sealed))
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      HIDDEN.has(name) && member !== null && member !== undefined
        ? name === 'sealed'
          ? sealed
          : MASK
        : masked(member, sealed),
    ]),
  )
}
