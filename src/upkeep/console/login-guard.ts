// The guard before every password check: a name or address with too many failures is refused before anything is hashed,
// and failures are recorded and shared.
import type { LoginEvent } from '../../domain/access/login.ts'
import { hmacHex } from '../../lib/crypto/digest.ts'
import { networkOf } from '../../lib/http/ip-range.ts'
import type { FailedLogins } from '../../state/indexes/failed-logins.ts'
import { GatewayError } from '../../wire/errors.ts'

export interface LoginGuardDeps {
  readonly failures: FailedLogins
  /** Digests of addresses; the same on every instance. */
  readonly addressKey: Uint8Array
  nowMs(): number
  /** To the operations topic. */
  emit(event: LoginEvent): void
  /** Announces new failures to the other instances. */
  announce(): void
}

/** The source of a login attempt: the digest of the name that was sent, and the address. */
export interface Attempt {
  readonly nameDigest: string
  readonly address: string
}

export interface LoginGuard {
  /** Throws 429 with `Retry-After` while the name or the address is locked out. */
  refuseLocked(attempt: Attempt): void
  /** The same, and counts the attempt as under way until one of the other three is called. */
  begin(attempt: Attempt): void
  /** Returns whether it locked the name or the address out. */
  failed(attempt: Attempt): boolean
  succeeded(attempt: Attempt): void
  abandoned(attempt: Attempt): void
}

const SUBJECT_DIGITS = 32

const lockedOut = (seconds: number): GatewayError =>
  new GatewayError('rate_limited', 'too many failed logins: wait, then try again', {
    retryAfterS: Math.max(1, seconds),
  })

export const createLoginGuard = (deps: LoginGuardDeps): LoginGuard => {
  const { failures, addressKey, nowMs, emit, announce } = deps
  const nameOf = ({ nameDigest }: Attempt): string => `u:${nameDigest.slice(0, SUBJECT_DIGITS)}`
  const subjectsOf = (attempt: Attempt): [name: string, address: string] => [
    nameOf(attempt),
    `a:${hmacHex(addressKey, networkOf(attempt.address)).slice(0, SUBJECT_DIGITS)}`,
  ]
  const refuseLocked = (attempt: Attempt): void => {
    const now = nowMs()
    const untilMs = failures.lockedUntil(subjectsOf(attempt), now)
    if (untilMs !== null) throw lockedOut((untilMs - now) / 1_000)
  }
  return {
    refuseLocked,
    begin(attempt) {
      refuseLocked(attempt)
      if (!failures.begin(subjectsOf(attempt), nowMs())) throw lockedOut(1)
    },
    failed(attempt) {
      const now = nowMs()
      const { nameDigest, address } = attempt
      const subjects = subjectsOf(attempt)
      const locked = failures.failed(subjects, now)
      emit({ type: 'login.failed', data: { at_ms: now, name_digest: nameDigest, address } })
      for (const { subject, level, untilMs } of locked) {
        const who =
          subject === subjects[0] ? { name_digest: nameDigest, address: null } : { name_digest: null, address }
        emit({ type: 'login.locked', data: { at_ms: now, ...who, level, until_ms: untilMs } })
      }
      announce()
      return locked.length > 0
    },
    succeeded(attempt) {
      failures.succeeded(subjectsOf(attempt), nameOf(attempt), nowMs())
      announce()
    },
    abandoned: (attempt) => failures.abandoned(subjectsOf(attempt), nowMs()),
  }
}
