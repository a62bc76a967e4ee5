// The admin surface over a real chain in a separate data folder, with the history thread: answers about the past are
// read from the log.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Elysia } from 'elysia'
import type { EventRecord } from '../../../../src/domain/kernel/decision.ts'
import { PAST_READER } from '../../../../src/http/admin/past.ts'
import type { AdminRoute } from '../../../../src/http/admin/route.ts'
import { type AdminDeps, adminRoutes } from '../../../../src/http/admin/runner.ts'
import { errorResponse } from '../../../../src/http/envelope.ts'
import { contextOf } from '../../../../src/http/request-context.ts'
import { sha256Hex } from '../../../../src/lib/crypto/digest.ts'
import { LOG_MODULE, openLog } from '../../../../src/log/open-log.ts'
import type { EventLog } from '../../../../src/log/port.ts'
import { startSnapshots } from '../../../../src/state/history/snapshot-thread.ts'
import { openKeyIndex } from '../../../../src/state/indexes/api-keys.ts'
import { createSteering } from '../../../../src/state/indexes/live-steering.ts'
import { begin, type Instance, macKey, openInstance, quiet } from '../../../state/support.ts'
import { ADMIN_KEY, type Answer, BASE, type CallOptions, type Gateway, startGateway } from './gateway.ts'

export interface RealGateway {
  readonly log: EventLog
  readonly instance: Instance
  readonly vault: Gateway['vault']
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
  /** Writes these events as one decision; answers its id. */
  decide(events: readonly EventRecord[]): Promise<string>
  close(): Promise<void>
}

/** `further`: routes of read models, which are given this chain and its history. */
export const startRealGateway = async (
  further: (parts: Pick<AdminDeps, 'live' | 'history'>) => readonly AdminRoute[] = () => [],
): Promise<RealGateway> => {
  const dataDir = await mkdtemp(join(tmpdir(), 'gatelog-history-'))
  const logOptions = { adapter: 'embedded', dataDir, retentionMs: 60_000 } as const
  const log = openLog(logOptions)
  await begin(log)
  const instance = await openInstance('a', log)
  await instance.live.ready()
  const { live } = instance
  const { commit } = instance.queue
  const history = startSnapshots({ ...LOG_MODULE, ...PAST_READER, logOptions, macKey, dataDir, diagnostics: quiet })
  const fake = startGateway()
  const steering = createSteering(live)
  const deps = { ...fake.deps, live, commit, history, steering, keys: openKeyIndex(live), nowMs: Date.now }
  Object.assign(deps, { furtherRoutes: further(deps) })
  const app = new Elysia()
    .onError({ as: 'global' }, ({ error, request }) => errorResponse(error, contextOf(request)) as never)
    .use(adminRoutes(deps))
  const decide = async (events: readonly EventRecord[]) =>
    (await commit({ actor: { type: 'system', id: 'test' }, decide: () => events })).revision
  await decide([
    { type: 'schema.activated', data: { version: 3 } },
    {
      type: 'tenant.created',
      data: { id: 'ten_default', slug: 'default', name: 'Default', plan: null, rate_limits: null, managed_by: 'api' },
    },
    {
      type: 'api_key.issued',
      data: {
        id: 'key_admin',
        tenant_id: 'ten_default',
        name: 'admin',
        scopes: ['*'],
        digest: sha256Hex(ADMIN_KEY),
        expires_at: null,
        routing_policy_id: null,
        rate_limits: null,
        managed_by: 'api',
      },
    },
  ])
  return {
    log,
    instance,
    vault: fake.vault,
    decide,
    async call(method, path, { key = ADMIN_KEY, body, headers = {} } = {}) {
      const text = body === undefined ? undefined : JSON.stringify(body)
      const json: Record<string, string> = text === undefined ? {} : { 'content-type': 'application/json' }
      const response = await app.handle(
        new Request(`${BASE}${path}`, {
          method,
          headers: { ...(key === null ? {} : { authorization: `Bearer ${key}` }), ...json, ...headers },
          body: text,
        }),
      )
      return { status: response.status, headers: response.headers, body: (await response.json()) as Answer['body'] }
    },
    async close() {
      await history.stop()
      await instance.close()
      await log.close()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}
