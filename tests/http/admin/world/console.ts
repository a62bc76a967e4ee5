// Console logins for tests: cheap hashes that are counted, a clock that stands still, events that are kept.
import type { LoginEvent } from '../../../../src/domain/access/login.ts'
import { clientsBehind } from '../../../../src/http/clients.ts'
import type { ConsoleDeps } from '../../../../src/http/console-auth.ts'
import { allowedHosts } from '../../../../src/http/host-check.ts'
import { newId } from '../../../../src/lib/crypto/ids.ts'
import { createPasswords } from '../../../../src/lib/crypto/passwords.ts'
import { FailedLogins } from '../../../../src/state/indexes/failed-logins.ts'
import type { Commit, DataKeys, LiveState } from '../../../../src/state/port.ts'
import { createLoginGuard } from '../../../../src/upkeep/console/login-guard.ts'
import { createOperators } from '../../../../src/upkeep/console/operators.ts'
import { createSessions } from '../../../../src/upkeep/console/sessions.ts'
import { quiet } from '../../../state/support.ts'

export interface TestDoor {
  readonly deps: Pick<ConsoleDeps, 'sessions' | 'operators' | 'clients' | 'cookieSecure' | 'setup' | 'diagnostics'>
  readonly failures: FailedLogins
  /** What stood in the operations topic. */
  readonly events: LoginEvent[]
  /** Passwords that were hashed, and checked. */
  readonly hashed: { hash: number; verify: number }
  /** What each hash waits for; null: nothing. */
  gate: Promise<unknown> | null
}

export interface TestDoorDeps {
  readonly live: LiveState
  readonly commit: Commit
  readonly dataKeys: Pick<DataKeys, 'seal' | 'open' | 'erase' | 'subscribe'>
  nowMs(): number
  readonly trustedProxies?: readonly string[]
  readonly cookieSecure?: boolean
  readonly failures?: FailedLogins
  readonly setupOff?: boolean
}

/** What a start would print. */
export const SETUP_TOKEN = 'token-of-the-first-set-up'
/** Loopback, and the name that tests address. */
export const HOSTS = allowedHosts({ listensOn: '127.0.0.1', allowed: ['gateway.test'], publicUrl: null })

export const testDoor = (deps: TestDoorDeps): TestDoor => {
  const { live, commit, dataKeys, nowMs, failures = new FailedLogins() } = deps
  const events: LoginEvent[] = []
  const hashed = { hash: 0, verify: 0 }
  const passwords = createPasswords({
    async hash(password) {
      hashed.hash += 1
      await door.gate
      return `hash of ${Bun.SHA256.hash(String(password), 'hex')}`
    },
    async verify(password, hash) {
      hashed.verify += 1
      await door.gate
      return hash === `hash of ${Bun.SHA256.hash(String(password), 'hex')}`
    },
  })
  const guard = createLoginGuard({
    failures,
    addressKey: new Uint8Array(32).fill(1),
    nowMs,
    emit: (event) => events.push(event),
    announce: () => {},
  })
  const nameKeys: [Uint8Array] = [new Uint8Array(32).fill(2)]
  const operators = createOperators({ live, dataKeys, passwords, guard, nameKeys })
  const sessions = createSessions({ live, commit, newId, nowMs, diagnostics: quiet })
  const clients = clientsBehind(deps.trustedProxies ?? [])
  const door: TestDoor = {
    deps: {
      ...{ sessions, operators, clients, cookieSecure: deps.cookieSecure ?? false, diagnostics: quiet },
      setup: { isOff: deps.setupOff ?? false, token: SETUP_TOKEN, hosts: HOSTS },
    },
    failures,
    events,
    hashed,
    gate: null,
  }
  return door
}
