// Passwords: argon2id on the runtime's thread pool, few at a time, and a hash for those who have none, so that the time tells nothing.

/** OWASP's least for argon2id. About 20 MiB and 30 ms each. */
const PARAMETERS = { memoryCost: 19_456, timeCost: 2 } as const
/** More would take the cores from the requests. */
const AT_ONCE = 2
const MAX_WAITING = 32

/** Nobody's: of the same cost as everybody's, and of no password. */
const NOBODY = `$argon2id$v=19$m=${PARAMETERS.memoryCost},t=${PARAMETERS.timeCost},p=1$${'A'.repeat(43)}$${'A'.repeat(43)}`

/** Too many wait for a hash already. */
export class TooManyHashes extends Error {
  override readonly name = 'TooManyHashes'
}

export interface Passwords {
  /** The hash, with its salt and parameters in it. Throws TooManyHashes. */
  hash(password: string): Promise<string>
  /**
   * Whether the password is that of the hash; null is nobody's hash: false, after the same time. `whenDue` is asked when its turn has come; what it throws is
   * thrown, and nothing is hashed. Throws TooManyHashes.
   */
  verify(password: string, hashOf: () => Promise<string | null>, whenDue: () => void): Promise<boolean>
}

/** The same characters, however a keyboard composed them. */
const bytesOf = (password: string): string => password.normalize('NFC')

/** One for each process. `argon2`: what does the work. */
export const createPasswords = (argon2: Pick<typeof Bun.password, 'hash' | 'verify'> = Bun.password): Passwords => {
  let running = 0
  const waiting: (() => void)[] = []
  const inTurn = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    if (running < AT_ONCE) running += 1
    else {
      if (waiting.length >= MAX_WAITING) throw new TooManyHashes('too many logins at once')
      await new Promise<void>((resolve) => waiting.push(resolve)) // its place is handed on
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
    hash: (password) => inTurn(() => argon2.hash(bytesOf(password), { algorithm: 'argon2id', ...PARAMETERS })),
    verify: (password, hashOf, whenDue) =>
      inTurn(async () => {
        whenDue()
        const hash = await hashOf()
        const isRight = await argon2.verify(bytesOf(password), hash ?? NOBODY, 'argon2id')
        return isRight && hash !== null
      }),
  }
}
