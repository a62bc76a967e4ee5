// Passwords: argon2id on the runtime's thread pool, few at a time, and a hash for operators without one, so that the
// time reveals nothing.

/** OWASP's minimum for argon2id: about 20 MiB and 30 ms a hash. */
const PARAMETERS = { memoryCost: 19_456, timeCost: 2 } as const
/** More would take the cores from requests. */
const AT_ONCE = 2
const MAX_WAITING = 32

const COST = `m=${PARAMETERS.memoryCost},t=${PARAMETERS.timeCost},p=1`
/** The hash of no password, of the usual cost. */
const NO_HASH = `$argon2id$v=19$${COST}$${'A'.repeat(43)}$${'A'.repeat(43)}`

/** Too many hashes wait already. */
export class TooManyHashes extends Error {
  override readonly name = 'TooManyHashes'
}

export interface Passwords {
  /** The hash, with its salt and parameters. Throws TooManyHashes. */
  hash(password: string): Promise<string>
  /**
   * Whether the password matches the hash. A null hash gives false, after the same time. `whenDue` is called before
   * hashing, when a slot is free; an error it throws is thrown here, and nothing is hashed. Throws TooManyHashes.
   */
  verify(password: string, hashOf: () => Promise<string | null>, whenDue: () => void): Promise<boolean>
}

/** Unicode-normalised, so that keyboards which compose characters differently give the same bytes. */
const bytesOf = (password: string): string => password.normalize('NFC')

/** One for each process. `argon2`: the implementation. */
export const createPasswords = (argon2: Pick<typeof Bun.password, 'hash' | 'verify'> = Bun.password): Passwords => {
  let running = 0
  const waiting: (() => void)[] = []
  const inSlot = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    if (running < AT_ONCE) running += 1
    else {
      if (waiting.length >= MAX_WAITING) throw new TooManyHashes('too many logins at once')
      // The slot is handed over.
      await new Promise<void>((resolve) => waiting.push(resolve))
    }
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) running -= 1
      else next()
    }
  }
  return {
    hash: (password) => inSlot(() => argon2.hash(bytesOf(password), { algorithm: 'argon2id', ...PARAMETERS })),
    verify: (password, hashOf, whenDue) =>
      inSlot(async () => {
        whenDue()
        const hash = await hashOf()
        const isRight = await argon2.verify(bytesOf(password), hash ?? NO_HASH, 'argon2id')
        return isRight && hash !== null
      }),
  }
}
