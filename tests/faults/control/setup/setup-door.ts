// The console's routes over an instance of a race, listening: the routes, the hashes and the data keys of a gateway,
// for one round.
import { Elysia } from 'elysia'
import { clientsBehind, notePeer } from '../../../../src/http/clients.ts'
import { consoleAuthRoutes } from '../../../../src/http/console-auth.ts'
import { errorResponse } from '../../../../src/http/envelope.ts'
import { allowedHosts } from '../../../../src/http/host-check.ts'
import { contextOf } from '../../../../src/http/request-context.ts'
import { newId } from '../../../../src/lib/crypto/ids.ts'
import { createPasswords } from '../../../../src/lib/crypto/passwords.ts'
import { openDataKeys } from '../../../../src/state/data-keys/data-keys.ts'
import type { DataKeyStore } from '../../../../src/state/data-keys/store.ts'
import { FailedLogins } from '../../../../src/state/indexes/failed-logins.ts'
import { lastUses } from '../../../../src/state/indexes/last-uses.ts'
import { createLoginGuard } from '../../../../src/upkeep/console/login-guard.ts'
import { createOperators } from '../../../../src/upkeep/console/operators.ts'
import { createSessions } from '../../../../src/upkeep/console/sessions.ts'
import { openRaceLog, type RaceLog } from '../../../state/commit/race-writer.ts'
import { type Instance, nowMs, quiet } from '../../../state/support.ts'

export interface Door {
  readonly url: string
  close(): Promise<void>
}

const MASTER = new Uint8Array(32).fill(3)
/** One for the process, as in a gateway: at most two hashes at once. */
const passwords = createPasswords()

/** The data keys of a process, which all its rounds share: their topic is not made again. */
export const openRaceKeys = async (options: RaceLog, instance: string): Promise<DataKeyStore> => {
  const deps = { masterKeys: () => [MASTER] as const, instance, dataDir: null, nowMs, diagnostics: quiet }
  const store = await openDataKeys({ log: openRaceLog(options), ...deps })
  await store.ready()
  return store
}

export const openDoor = ({ live, queue }: Instance, dataKeys: DataKeyStore): Door => {
  const guard = createLoginGuard({
    failures: new FailedLogins(),
    addressKey: new Uint8Array(32).fill(1),
    nowMs,
    emit: () => {},
    announce: () => {},
  })
  const nameKeys: [Uint8Array] = [new Uint8Array(32).fill(2)]
  const sessions = createSessions({ live, commit: queue.commit, newId, nowMs, diagnostics: quiet })
  const deps = {
    appliedBy: async () => ({ applied: 1, instances: 1 }),
    ...{ live, sessions, newId, nowMs, cookieSecure: false, diagnostics: quiet, clients: clientsBehind([]) },
    setup: {
      ...{ isOff: false, token: '' },
      hosts: allowedHosts({ listensOn: '127.0.0.1', allowed: [], publicUrl: null }),
    },
    // No request carries a key.
    ...{ keys: { lookup: () => null, knows: () => false }, lastUses: lastUses() },
    inference: { authHeader: 'authorization', minKeyLength: 20, maxStalenessMs: null },
    operators: createOperators({ live, dataKeys, passwords, guard, nameKeys }),
  }
  const app = new Elysia()
    .onRequest(({ request, server }) => notePeer(request, server ?? undefined))
    .onError({ as: 'global' }, ({ error, request }) => errorResponse(error, contextOf(request)) as never)
    .use(consoleAuthRoutes(deps, () => {}))
    .listen({ hostname: '127.0.0.1', port: 0 })
  return {
    url: `http://127.0.0.1:${app.server!.port}/admin/v1/auth`,
    async close() {
      sessions.stop()
      await app.stop(true)
    },
  }
}
