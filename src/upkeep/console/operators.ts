// Operators as the routes need them: names and passwords are sealed before anything is decided, and read only behind
// the guard.
import { type OperatorRow, operatorNamed } from '../../domain/access/operator.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import { type Passwords, TooManyHashes } from '../../lib/crypto/passwords.ts'
import {
  nameDigests,
  openArrivingOperator,
  openOperator,
  sealOperator,
} from '../../state/data-keys/operator-secrets.ts'
import type { CommitResult, DataKeys, LiveState } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import type { Attempt, LoginGuard } from './login-guard.ts'

export interface OperatorsDeps {
  readonly live: Pick<LiveState, 'control' | 'refused'>
  readonly dataKeys: Pick<DataKeys, 'seal' | 'open' | 'erase' | 'subscribe'>
  readonly passwords: Passwords
  readonly guard: LoginGuard
  /** Keys of the digests of names: the current one first. */
  readonly nameKeys: readonly [Uint8Array, ...Uint8Array[]]
}

/** The sealed members of an operator's command. */
export interface SealedSecrets {
  readonly name_digests: readonly [string, ...string[]]
  readonly key_id: string
  readonly sealed: string
}

export interface PasswordCheck {
  /** Null: no operator of that name has this password. */
  readonly operator: OperatorRow | null
  /** Whether this failure locked the name or the address out. */
  readonly locked: boolean
}

export interface Operators {
  /** Name of an operator, or null when its secret can no longer be opened. */
  usernameOf(row: OperatorRow): string | null
  /** Takes the same time for every name. Throws 429: locked out, or too many at once. */
  check(username: string, password: string, address: string): Promise<PasswordCheck>
  /**
   * Whether this password was sealed in this row; false when it was erased, since then it cannot be compared. Throws
   * 429: too many hashes at once.
   */
  isPasswordOf(row: OperatorRow, password: string): Promise<boolean>
  /**
   * Hashes and seals, then decides. A decision that is refused, or repeated and answered from memory, leaves no data
   * key behind. A decision that may yet count keeps its data key; the sweep of unused data keys removes it otherwise.
   * Throws 429: too many hashes at once.
   */
  sealed<Result extends Pick<CommitResult, 'repeated'>>(
    id: string,
    username: string,
    password: string,
    decide: (secrets: SealedSecrets) => Promise<Result>,
  ): Promise<Result>
  /** What was sealed under it can no longer be opened. */
  erase(keyId: string): Promise<void>
}

const busy = (error: unknown): unknown =>
  error instanceof TooManyHashes
    ? new GatewayError('rate_limited', 'too many passwords are being checked; try again', { retryAfterS: 1 })
    : error

export const createOperators = ({ live, dataKeys, passwords, guard, nameKeys }: OperatorsDeps): Operators => ({
  usernameOf: (row) => openOperator(dataKeys, row)?.username ?? null,
  async check(username, password, address) {
    const digests = nameDigests(nameKeys, username)
    const attempt: Attempt = { nameDigest: digests[0], address }
    guard.refuseLocked(attempt)
    let operator: OperatorRow | undefined
    let begun = false
    const hashOf = async (): Promise<string | null> => {
      operator = operatorNamed(live.control, digests)
      if (operator === undefined || live.refused.has(operator.id)) return null
      return (await openArrivingOperator(dataKeys, operator))?.password_hash ?? null
    }
    const whenDue = () => {
      guard.begin(attempt)
      begun = true
    }
    try {
      const isRight = await passwords.verify(password, hashOf, whenDue)
      begun = false
      if (!isRight || operator === undefined) return { operator: null, locked: guard.failed(attempt) }
      guard.succeeded(attempt)
      return { operator, locked: false }
    } catch (error) {
      if (begun) guard.abandoned(attempt)
      throw busy(error)
    }
  },
  isPasswordOf(row, password) {
    const hashOf = async () => (await openArrivingOperator(dataKeys, row))?.password_hash ?? null
    const verified = passwords.verify(password, hashOf, () => {})
    return verified.catch((error: unknown) => {
      throw busy(error)
    })
  },
  async sealed(id, username, password, decide) {
    const password_hash = await passwords.hash(password).catch((error: unknown) => {
      throw busy(error)
    })
    const { keyId, sealed } = await sealOperator(dataKeys, id, { username, password_hash })
    try {
      const result = await decide({ name_digests: nameDigests(nameKeys, username), key_id: keyId, sealed })
      if (result.repeated) await dataKeys.erase(keyId)
      return result
    } catch (error) {
      if (error instanceof Rejection) await dataKeys.erase(keyId)
      throw error
    }
  },
  erase: (keyId) => dataKeys.erase(keyId),
})
