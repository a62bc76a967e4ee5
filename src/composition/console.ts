// Puts together the sign-in of the console: operators, their sessions, and the guard before both.

import { type Config, isLoopback } from '../config/schema.ts'
import type { LoginEvent } from '../domain/access/login.ts'
import { setupIsOpen } from '../domain/access/setup.ts'
import { clientsBehind } from '../http/clients.ts'
import type { ConsoleDeps } from '../http/console-auth.ts'
import { allowedHosts } from '../http/host-check.ts'
import { type SetupDoor, setupLink, setupTokenOf } from '../http/setup-door.ts'
import { newId } from '../lib/crypto/ids.ts'
import { createPasswords } from '../lib/crypto/passwords.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { wallMs } from '../lib/time/wall-clock.ts'
import { REFUSABLE, type Spool } from '../log/spool/spool.ts'
import { FailedLogins } from '../state/indexes/failed-logins.ts'
import { createLoginGuard } from '../upkeep/console/login-guard.ts'
import { createOperators } from '../upkeep/console/operators.ts'
import { createSessions } from '../upkeep/console/sessions.ts'
import type { ControlPlane } from './control-plane.ts'
import type { Outcomes } from './outcomes.ts'

export interface ConsoleParts {
  readonly deps: Pick<ConsoleDeps, 'sessions' | 'operators' | 'clients' | 'cookieSecure' | 'setup' | 'diagnostics'>
  readonly failures: FailedLogins
  /** The link of the first set-up, by which this machine or `server.public_url` reaches it; null: it is not open. */
  setupLink(url: string): string | null
  close(): void
}

export interface ConsolePartsDeps {
  readonly config: Config
  readonly control: Pick<ControlPlane, 'live' | 'commits' | 'dataKeys' | 'installation'>
  readonly outcomes: Pick<Outcomes, 'spool'>
  readonly diagnostics: Diagnostics
  /** Announces something to the other instances. */
  announce(): void
}

const COMPLAIN_MS = 60_000

export const openConsole = ({ config, control, outcomes, diagnostics, announce }: ConsolePartsDeps): ConsoleParts => {
  const { live, commits, dataKeys, installation } = control
  const failures = new FailedLogins()
  const nowMs = wallMs
  const guard = createLoginGuard({
    failures,
    addressKey: installation.loginAddress,
    nowMs,
    emit: emitter(outcomes.spool, diagnostics),
    announce,
  })
  const nameKeys = [installation.operatorName] as const
  const operators = createOperators({ live, dataKeys, passwords: createPasswords(), guard, nameKeys: [...nameKeys] })
  const sessions = createSessions({ live, commit: commits.commit, newId, nowMs, diagnostics })
  const clients = clientsBehind(config.server.trusted_proxies)
  const setup = setupDoorOf(config, installation)
  void warnOfOpenSetup(config, live, diagnostics)
  return {
    deps: { sessions, operators, clients, cookieSecure: config.cookie_secure, setup, diagnostics },
    failures,
    setupLink(url) {
      const isOpen = config.admin.enabled && !setup.isOff && live.status().serves && setupIsOpen(live.control)
      return isOpen ? setupLink(config.server.public_url ?? url, setup) : null
    },
    close: () => sessions.stop(),
  }
}

const setupDoorOf = ({ server, setup }: Config, installation: ControlPlane['installation']): SetupDoor => ({
  isOff: setup === 'off',
  token: setupTokenOf(installation.idempotency),
  hosts: allowedHosts({ listensOn: server.host, allowed: server.allowed_hosts, publicUrl: server.public_url }),
})

/** Others can reach the port, and set-up waits for the token that the start prints. */
const warnOfOpenSetup = async (
  { admin, server, setup }: Config,
  live: ControlPlane['live'],
  diagnostics: Diagnostics,
): Promise<void> => {
  if (!admin.enabled || setup === 'off' || isLoopback(server.host)) return
  try {
    await live.ready()
  } catch {
    return // the caller that opened the control state gets the error
  }
  if (setupIsOpen(live.control))
    diagnostics.warn('setup_open', {
      mend:
        'the link that the start prints makes the first operator; GATEWAY_SETUP=off closes set-up where keys are used ' +
        'alone',
    })
}

/**
 * Writes to the operations topic, without the ballast: that is for requests in flight. What cannot be written is
 * reported once a minute.
 */
const emitter = (spool: Pick<Spool, 'append'>, diagnostics: Diagnostics) => {
  let complainedMs = Number.NEGATIVE_INFINITY
  return ({ type, data }: LoginEvent): void => {
    const subject = data.name_digest ?? data.address ?? ''
    spool.append('operations', type, subject, JSON.stringify(data), REFUSABLE).catch((error: unknown) => {
      const now = performance.now()
      if (now - complainedMs < COMPLAIN_MS) return
      complainedMs = now
      diagnostics.warn('login_event_not_written', { error })
    })
  }
}
