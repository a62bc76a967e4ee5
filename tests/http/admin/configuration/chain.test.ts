// The admin surface on the real chain: two instances over one log in memory, with their own folds, commit queues,
// indexes and data keys.

import { describe, expect, test } from 'bun:test'
import { Elysia } from 'elysia'
import { adminRoutes } from '../../../../src/http/admin/runner.ts'
import { errorResponse } from '../../../../src/http/envelope.ts'
import { contextOf } from '../../../../src/http/request-context.ts'
import { newApiKey, newId } from '../../../../src/lib/crypto/ids.ts'
import { type MemoryFaults, memoryLog } from '../../../../src/log/memory.ts'
import type { EventLog } from '../../../../src/log/port.ts'
import { TOPICS } from '../../../../src/log/topics.ts'
import { KINDS, kindOf } from '../../../../src/providers/kinds.ts'
import { NO_BUDGETS } from '../../../../src/state/budgets/budgets.ts'
import { openDataKeys } from '../../../../src/state/data-keys/data-keys.ts'
import type { DataKeyStore } from '../../../../src/state/data-keys/store.ts'
import { openKeyIndex } from '../../../../src/state/indexes/api-keys.ts'
import { openCatalogue, providerSecret } from '../../../../src/state/indexes/catalogue.ts'
import { lastUses } from '../../../../src/state/indexes/last-uses.ts'
import { createSteering } from '../../../../src/state/indexes/live-steering.ts'
import { openSeeder } from '../../../../src/upkeep/bootstrap/seeder.ts'
import { modelCatalogue } from '../../../../src/upkeep/models/model-listing.ts'
import { closedAfterEach } from '../../../services/closing.ts'
import { begin, openInstance, quiet } from '../../../state/support.ts'
import { testDoor } from '../world/console.ts'
import { type Answer, BASE, type CallOptions } from '../world/gateway.ts'
import { NO_WORK } from '../world/no-work.ts'
import { presentHistory } from '../world/present-history.ts'

const closing = closedAfterEach()

const open = async (name: string, log: EventLog) => {
  const { live, queue, close } = await openInstance(name, log)
  await live.ready()
  const dataKeys = await openDataKeys({
    log,
    masterKeys: () => [new Uint8Array(32).fill(7)],
    instance: name,
    dataDir: null,
    nowMs: Date.now,
    diagnostics: quiet,
  })
  await dataKeys.ready()
  const catalogue = openCatalogue({ live, dataKeys, env: {}, kinds: KINDS, diagnostics: quiet })
  closing.push(async () => {
    catalogue.close()
    await dataKeys.close()
    await close()
  })
  const kindTable = { resolve: kindOf, names: [...KINDS.keys()] }
  const shared = {
    live,
    commit: queue.commit,
    kindTable,
    providerWork: NO_WORK,
    allowPrivate: true,
    newId,
    newApiKey,
    nowMs: Date.now,
    modelCatalogue: modelCatalogue({
      dial: () => Promise.reject(new Error('nothing is called here')),
      kindTable,
      secretOf: (provider) => providerSecret(provider, { env: {}, diagnostics: quiet, dataKeys }),
      nowMs: Date.now,
    }),
  }
  const app = new Elysia()
    .onError({ as: 'global' }, ({ error, request }) => errorResponse(error, contextOf(request)) as never)
    .use(
      adminRoutes({
        ...testDoor({ ...shared, dataKeys }).deps,
        ...shared,
        keys: openKeyIndex(live),
        inference: { authHeader: 'authorization', minKeyLength: 20, maxStalenessMs: null },
        causeKey: new Uint8Array(32),
        liveInstances: () => [],
        instanceStandings: () => [],
        appliedBy: async () => ({ applied: 1, instances: 2 }),
        lastUses: lastUses(),
        budgets: NO_BUDGETS,
        verifyBudget: async () => null,
        dataKeys,
        content: { erase: async () => 0 },
        history: presentHistory(live),
        healthOf: () => ({
          status: 'unknown',
          checked_at: null,
          latency_ms: null,
          in_flight: 0,
          breakers: { closed: 0, open: 0, half_open: 0 },
        }),
        adapterReady: ({ id }) => catalogue.adapterReady(id),
        hasVariable: () => false,
        clearBreakers: async () => ({ applied: 1, instances: 1 }),
        steering: createSteering(live),
        furtherRoutes: [],
      }),
    )
  const run = openSeeder(
    { bootstrap: {}, adminKey: null, inferenceKey: null },
    { ...shared, env: () => undefined, minKeyLength: 20 },
  )
  const call = async (key: string, method: string, path: string, options: CallOptions = {}): Promise<Answer> => {
    const text = options.body === undefined ? undefined : JSON.stringify(options.body)
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...options.headers }
    const response = await app.handle(new Request(`${BASE}${path}`, { method, headers, body: text }))
    return {
      status: response.status,
      headers: response.headers,
      body: (await response.json()) as Record<string, unknown>,
    }
  }
  return { live, dataKeys, catalogue, run, call }
}

const openOne = async (faults: MemoryFaults) => {
  const log = memoryLog({ nowMs: Date.now })
  await begin(log)
  return open('a', log.view(faults))
}

const openTwo = async () => {
  const log = memoryLog({ nowMs: Date.now })
  await begin(log)
  return Promise.all([open('a', log), open('b', log)])
}

/** Both instances seed at once. Returns the admin key that one of them printed. */
const seedBoth = async (instances: Awaited<ReturnType<typeof openTwo>>): Promise<string> => {
  const reports = await Promise.all(instances.map(({ run }) => run()))
  const told = reports.flatMap(({ minted }) => minted)
  expect(told.map(({ scopes }) => scopes.join()).toSorted()).toEqual(['*', 'inference'])
  return told.find(({ scopes }) => scopes.includes('*'))!.plaintext
}

/** Resolves when the instance has, or no longer has, a data key. */
const holds = (dataKeys: DataKeyStore, keyId: string, wanted: boolean): Promise<void> =>
  new Promise((resolve) => {
    const look = () => {
      if (dataKeys.ids.has(keyId) !== wanted) return
      stop()
      resolve()
    }
    const stop = dataKeys.subscribe(look)
    look()
  })

describe('two instances on one chain', () => {
  test('seed at once: one tenant, one sandbox, each key printed once, and the sandbox can be called', async () => {
    const [a, b] = await openTwo()
    const key = await seedBoth([a, b])
    const { body } = await a.call(key, 'GET', '/providers')
    expect(body).toMatchObject({ total: 1, providers: [{ name: 'sandbox', adapter_ready: true }] })
    const { body: models } = await a.call(key, 'GET', '/models')
    expect(models.models).toContainEqual(expect.objectContaining({ name: 'sandbox-echo', input_cost_per_million: 0 }))
    await b.live.reached(a.live.status().tip, 20_000)
    expect(b.live.status().digest).toBe(a.live.status().digest)
  })

  test('a write on one is read on the other with its revision; a revocation acts there', async () => {
    const [a, b] = await openTwo()
    const key = await seedBoth([a, b])
    const { body: tenants } = await a.call(key, 'GET', '/tenants')
    const [tenant] = tenants.tenants as { id: string }[]
    const made = await a.call(key, 'POST', '/keys', {
      body: { tenant_id: tenant!.id, name: 'k', scopes: ['usage:read'] },
    })
    const seen = (revision: string | null) => ({ headers: { 'x-gateway-min-revision': revision ?? '' } })
    const plaintext = made.body.plaintext as string
    expect((await b.call(plaintext, 'GET', '/models', seen(made.headers.get('x-gateway-revision')))).status).toBe(200)
    const gone = await b.call(key, 'DELETE', `/keys/${made.body.id}`)
    await a.live.reached(gone.headers.get('x-gateway-revision')!, 20_000)
    expect((await a.call(plaintext, 'GET', '/models')).status).toBe(401)
  })

  test('a revision of the future is waited for, and then 504: nothing is read, and nothing written', async () => {
    const [a, b] = await openTwo()
    const key = await seedBoth([a, b])
    const headers = { 'x-gateway-min-revision': 'f'.repeat(64) }
    const body = { slug: 'early', name: 'Early' }
    const answers = await Promise.all([
      a.call(key, 'GET', '/models', { headers }),
      a.call(key, 'POST', '/tenants', { headers, body }),
    ])
    for (const answer of answers) {
      const error = { code: 'timeout', type: 'timeout_error', param: 'X-Gateway-Min-Revision' }
      expect([answer.status, answer.body.error]).toMatchObject([504, error])
      expect([answer.headers.get('x-gateway-retryable'), answer.headers.get('retry-after')]).toEqual(['true', '1'])
    }
    const { body: tenants } = await a.call(key, 'GET', '/tenants')
    expect(tenants).toMatchObject({ total: 1, tenants: [{ slug: 'default' }] })
  })

  test('a kill on one acts on the other when its record arrives there, whichever instance revives', async () => {
    const [a, b] = await openTwo()
    const key = await seedBoth([a, b])
    const { body } = await a.call(key, 'GET', '/providers')
    const [{ id }] = body.providers as [{ id: string }]
    for (const [one, other, kill] of [
      [a, b, true],
      [b, a, false],
    ] as const) {
      const { headers } = await one.call(key, 'POST', `/providers/${id}/kill`, { body: { kill } })
      await other.live.reached(headers.get('x-gateway-revision')!, 20_000)
      expect((await other.call(key, 'GET', `/providers/${id}`)).body.killed).toBe(kill)
    }
  })

  test('a write that was decided before a freeze on the other instance, and appended after it, is decided again and refused', async () => {
    const log = memoryLog({ nowMs: Date.now })
    await begin(log)
    let held: Promise<void> | null = null
    const arrived = Promise.withResolvers<void>()
    const beforeAppend = async () => {
      if (held !== null) arrived.resolve()
      await held
      return 'none' as const
    }
    const [a, b] = await Promise.all([open('a', log.view({ beforeAppend })), open('b', log)])
    const key = await seedBoth([a, b])
    await b.live.reached(a.live.status().tip, 20_000)
    const release = Promise.withResolvers<void>()
    held = release.promise
    const late = a.call(key, 'POST', '/tenants', { body: { slug: 'late', name: 'late' } })
    await arrived.promise
    expect((await b.call(key, 'POST', '/overrides', { body: { kind: 'freeze' } })).status).toBe(201)
    release.resolve()
    expect(await late).toMatchObject({ status: 403, body: { error: { code: 'permission_error' } } })
    expect(a.live.control.table('tenants').find('slug', 'late')).toEqual([])
  })

  test('of two that take one name at once, one is refused because it exists', async () => {
    const [a, b] = await openTwo()
    const key = await seedBoth([a, b])
    await b.live.reached(a.live.status().tip, 20_000)
    const names = Array.from({ length: 8 }, (_, i) => `t${i}`)
    const answers = await Promise.all(
      names.flatMap((slug) => [a, b].map((at) => at.call(key, 'POST', '/tenants', { body: { slug, name: slug } }))),
    )
    const statuses = Map.groupBy(answers.entries(), ([i]) => names[Math.floor(i / 2)]!)
    for (const pair of statuses.values()) expect(pair.map(([, { status }]) => status).toSorted()).toEqual([201, 409])
  })

  test('a repeat on the other instance answers the first result, without its secret', async () => {
    const [a, b] = await openTwo()
    const key = await seedBoth([a, b])
    const { body: tenants } = await a.call(key, 'GET', '/tenants')
    const [tenant] = tenants.tenants as { id: string }[]
    const options = {
      body: { tenant_id: tenant!.id, name: 'k', scopes: ['inference'] },
      headers: { 'idempotency-key': 'once' },
    }
    const [first, second] = await Promise.all([a, b].map((at) => at.call(key, 'POST', '/keys', options)))
    expect([first!.status, second!.status]).toEqual([201, 201])
    expect(first!.body.id).toBe(second!.body.id)
    expect([first!, second!].filter(({ body }) => body.plaintext !== null)).toHaveLength(1)
  })

  test('a write that changed nothing has used its Idempotency-Key, on every instance', async () => {
    const [a, b] = await openTwo()
    const key = await seedBoth([a, b])
    const { body: tenant } = await a.call(key, 'POST', '/tenants', { body: { slug: 'acme', name: 'A' } })
    await b.live.reached(tenant.revision as string, 20_000)
    const put = (at: typeof a, name: string, once: string | null) =>
      at.call(key, 'PUT', `/tenants/${tenant.id}`, {
        body: { name },
        headers: once === null ? {} : { 'idempotency-key': once },
      })
    const first = await put(a, 'A', 'q')
    expect([first.status, first.body.revision]).toEqual([200, tenant.revision])
    expect((await put(b, 'B', null)).status).toBe(200)
    for (const at of [a, b]) {
      const again = await put(at, 'A', 'q')
      expect([again.status, again.body]).toEqual([200, first.body])
      expect(again.headers.get('x-gateway-revision')).toBe(first.headers.get('x-gateway-revision'))
      const other = await put(at, 'C', 'q')
      expect([other.status, other.body.error]).toMatchObject([409, { param: 'Idempotency-Key' }])
    }
    expect((await b.call(key, 'GET', `/tenants/${tenant.id}`)).body.name).toBe('B')
  })

  test('a decision that counts is reported so, also when the old data key cannot be erased now', async () => {
    let away = false
    const a = await openOne({
      beforeAppend: ({ topic }) => (away && topic === TOPICS.keys.name ? 'refused' : 'none'),
    })
    const told = (await a.run()).minted.find(({ scopes }) => scopes.includes('*'))!
    const made = await a.call(told.plaintext, 'POST', '/providers', { body: { name: 'oa', kind: 'openai' } })
    const path = `/providers/${made.body.id}/credential`
    await a.call(told.plaintext, 'PUT', path, { body: { secret: 'sk-the-secret-of-the-test' } })
    away = true
    expect((await a.call(told.plaintext, 'DELETE', path)).status).toBe(200)
    expect(a.dataKeys.ids.size).toBe(1)
    away = false
    await a.dataKeys.eraseOwed()
    expect(a.dataKeys.ids.size).toBe(0)
  })

  test('a credential sealed on one opens on the other, and a removed one opens nowhere', async () => {
    const [a, b] = await openTwo()
    const key = await seedBoth([a, b])
    const made = await a.call(key, 'POST', '/providers', { body: { name: 'oa', kind: 'openai' } })
    const id = made.body.id as string
    await a.call(key, 'PUT', `/providers/${id}/credential`, { body: { secret: 'sk-the-secret-of-the-test' } })
    const row = a.live.control.table('providers').get(id)!
    await b.live.reached(row.revision, 20_000)
    expect(row.credential).not.toBeNull()
    const { key_id, sealed } = row.credential!
    expect(sealed).not.toContain('secret')
    for (const at of [a, b]) {
      await holds(at.dataKeys, key_id, true)
      expect(at.dataKeys.open(id, key_id, sealed)).toBe('sk-the-secret-of-the-test')
    }
    expect((await a.call(key, 'DELETE', `/providers/${id}/credential`)).status).toBe(200)
    for (const at of [a, b]) {
      await holds(at.dataKeys, key_id, false)
      expect(at.dataKeys.open(id, key_id, sealed)).toBeNull()
    }
    expect((await a.call(key, 'GET', `/providers/${id}`)).body).toMatchObject({
      has_credential: false,
      adapter_ready: false,
    })
  })
})
