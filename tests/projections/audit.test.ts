// The audit log: every decision that counts, none that does not, and never a secret.
import { describe, expect, test } from 'bun:test'
import { type AuditEventView, auditQueries } from '../../projections/audit/query.ts'
import { AuditRecorded } from '../../src/domain/events/audit.ts'
import { type EventRecord, GENESIS, writeDecision } from '../../src/domain/kernel/decision.ts'
import { sha256Hex } from '../../src/lib/crypto/digest.ts'
import { Value } from '../../src/lib/schema/schema.ts'
import { readEnvelope } from '../../src/log/envelope.ts'
import { LogReplaced, type NewRecord } from '../../src/log/port.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { writeTurn } from '../../src/state/write-turns.ts'
import { keyIssued, providerCreated, tenantCreated } from '../domain/world.ts'
import { eventually } from '../services/eventually.ts'
import { silent } from '../services/postgres.ts'
import { testStore } from './store.ts'
import { MAC_KEY, NOON_MS, startWorker, tableDigest, testLog } from './support.ts'

const CONTROL = TOPICS.control.name
const AUDIT = TOPICS.audit.name

/** A writer of the chain: each decision stands on the one before. */
const chain = () => {
  let tip = GENESIS
  let height = 0
  const decide = (events: readonly EventRecord[], parent = tip): NewRecord => {
    const at = new Date(NOON_MS + height++).toISOString()
    const actor = { type: 'key', id: 'key_admin' } as const
    const { bytes, id } = writeDecision({ parent, at, actor, cause: { id: 'c', body: 'b' }, v: 1, events }, MAC_KEY)
    if (parent === tip) tip = id
    return { key: null, value: bytes }
  }
  return { decide, tip: () => tip }
}

const credential = (sealed: string, replaces: boolean): EventRecord => ({
  type: 'credential.sealed',
  data: { provider_id: 'prov_1', key_id: 'dek_1', sealed, name: null, hint: 'WXYZ', replaces },
})

const store = testStore()

const EVERYTHING = {
  tenantId: null,
  resource: null,
  action: null,
  subjectId: null,
  actorId: null,
  fromMs: null,
  toMs: null,
  limit: 100,
  offset: 0,
}
const events = async (): Promise<AuditEventView[]> => {
  const { events: newestFirst } = await auditQueries(store.sql).list(EVERYTHING)
  return newestFirst.toReversed()
}
const said = (event: AuditEventView) => `${event.action} ${event.resource} ${event.subject_id}`

describe('the audit log', () => {
  test('holds what counts, in the order of the chain, and sets aside only what is damaged', async () => {
    const log = testLog()
    const { decide, tip } = chain()
    const started = decide([tenantCreated('ten_1'), tenantCreated('ten_2')])
    const loser = decide([tenantCreated('ten_lost')], GENESIS)
    const key = decide([keyIssued('key_1', 'ten_1')])
    const forged = Buffer.from(key.value!)
    forged[forged.length - 3] = forged[forged.length - 3] === 0x30 ? 0x31 : 0x30
    const malformed = decide([tenantCreated('ten_3'), { type: 'tenant.created', data: { id: 5 } }])
    const unknown = decide([{ type: 'budget.opened', data: { id: 'bud_1', tenant_id: 'ten_1' } }])
    const last = decide([{ type: 'tenant.deleted', data: { id: 'ten_1' } }])
    const turn = { key: null, value: writeTurn({ instance: 'ins', nonce: 'n' }, MAC_KEY) }
    const records = [started, loser, turn, { key: null, value: forged }, key, key, malformed, unknown, last]
    for (const record of records) await log.append(CONTROL, 0, [record])
    await store.fold(log, { model: 'audit' })
    expect((await events()).map(said)).toEqual([
      'create tenant ten_1',
      'create tenant ten_2',
      'create api_key key_1',
      'opened budget bud_1',
      'delete tenant ten_1',
    ])
    expect((await store.setAside('audit')).map(({ reason }) => reason)).toEqual([
      'forged: the MAC is not valid',
      'malformed: tenant.created does not match its schema',
    ])
    const [position] = await store.sql<{ tip: string }[]>`select tip from gatelog.position where model = 'audit'`
    expect(position!.tip).toBe(tip())
  })

  test('S31: shows before and after of each event, whose tenant it was and what fell with it, and masks what is secret', async () => {
    const log = testLog()
    const { decide } = chain()
    const digest = sha256Hex('key_1')
    await log.append(CONTROL, 0, [
      decide([tenantCreated('ten_1'), keyIssued('key_1', 'ten_1'), providerCreated('prov_1')]),
      decide([credential('first-sealed-secret', false), credential('second-sealed-secret', true)]),
      decide([{ type: 'tenant.deleted', data: { id: 'ten_1' } }]),
    ])
    const schema = await store.fold(log, { model: 'audit' })
    const [tenant, key, provider, first, second, deleted] = await events()
    expect(tenant).toMatchObject({
      before: null,
      after: { slug: 'ten_1' },
      tenant_id: 'ten_1',
      actor: { id: 'key_admin' },
    })
    expect(key).toMatchObject({ after: { digest: '[masked]', name: 'key_1' }, tenant_id: 'ten_1' })
    expect(provider).toMatchObject({ tenant_id: null, after: { credential: null } })
    expect(first).toMatchObject({
      action: 'create',
      resource: 'credential',
      before: { credential: null },
      after: { credential: { sealed: '[masked]', hint: 'WXYZ' } },
    })
    expect(second).toMatchObject({ action: 'rotate', before: { credential: { sealed: '[masked]' } } })
    expect(deleted).toMatchObject({ action: 'delete', before: { slug: 'ten_1' }, after: null, removed: { keys: 1 } })
    const stored = JSON.stringify(await store.sql`select t::text from ${store.sql(`${schema}.audit_event`)} t`)
    for (const secret of [digest, 'first-sealed-secret', 'second-sealed-secret']) expect(stored).not.toContain(secret)
  })

  test('goes on after a restart with the state it had, and gives the same rows when it is made anew', async () => {
    const log = testLog()
    const { decide } = chain()
    await log.append(CONTROL, 0, [decide([tenantCreated('ten_1')])])
    await store.fold(log, { model: 'audit' })
    const replaced = { type: 'tenant.replaced', data: { id: 'ten_1', name: 'new', plan: null } }
    await log.append(CONTROL, 0, [decide([replaced])])
    store.follow(log)
    const schema = await store.applied('audit', 2)
    expect((await events())[1]).toMatchObject({ before: { name: 'ten_1' }, after: { name: 'new' } })
    const before = await tableDigest(store.sql, schema, 'audit_event', 'log_offset, event_index')
    await store.rebuild(log)
    const after = await store.schemaOf('audit')
    expect(after).not.toBe(schema)
    expect(await tableDigest(store.sql, after, 'audit_event', 'log_offset, event_index')).toBe(before)
  })

  test('starts from its checkpoint, and the rows that follow are those of a fold from the start', async () => {
    const log = testLog()
    const { decide } = chain()
    const rename = (count: number) =>
      Array.from({ length: count }, (_, at) =>
        decide([{ type: 'tenant.replaced', data: { id: 'ten_1', name: `name ${at}`, plan: null } }]),
      )
    await log.append(CONTROL, 0, [decide([tenantCreated('ten_1')])])
    for (let at = 0; at < 26; at++) await log.append(CONTROL, 0, rename(200))
    const first = store.follow(log)
    const schema = await store.applied('audit', 5_201)
    await eventually(
      'a checkpoint',
      async () => (await store.sql`select 1 from ${store.sql(`${schema}.checkpoint`)}`)[0] ?? null,
    )
    await first.stop()
    // With another state in the checkpoint the next row must show it: then it was read.
    await log.append(CONTROL, 0, rename(1))
    const reads: number[] = []
    const spied = {
      ...log,
      read: (topic: string, partition: number, from: number, signal: AbortSignal) => {
        if (topic === CONTROL) reads.push(from)
        return log.read(topic, partition, from, signal)
      },
    }
    await store.fold(spied, { model: 'audit' })
    expect(reads.every((from) => from >= 5_000)).toBe(true)
    expect((await auditQueries(store.sql).list(EVERYTHING)).events[0]).toMatchObject({
      before: { name: 'name 199' },
      after: { name: 'name 0' },
    })
  })

  test('says of each event of a decision that takes another one back which one that is', async () => {
    const log = testLog()
    const { decide, tip } = chain()
    await log.append(CONTROL, 0, [decide([tenantCreated('ten_1')])])
    const reverted = tip()
    const back = [
      { type: 'decision.reverted', data: { decision_id: reverted } },
      { type: 'tenant.deleted', data: { id: 'ten_1' } },
    ]
    await log.append(CONTROL, 0, [decide(back)])
    await store.fold(log, { model: 'audit' })
    const [made, ...taken] = await events()
    expect(made).toMatchObject({ reverts: null })
    expect(taken.map(said)).toEqual([`revert decision ${reverted}`, 'delete tenant ten_1'])
    for (const event of taken) expect(event.reverts).toBe(reverted)
  })

  test('S31: a chain that is another one ends the worker', async () => {
    const write = async (name: string) => {
      const log = testLog()
      const { decide } = chain()
      await log.append(CONTROL, 0, [decide([tenantCreated(name)])])
      return log
    }
    await store.fold(await write('ten_1'), { model: 'audit' })
    await expect(startWorker({ log: await write('ten_2'), databaseUrl: store.databaseUrl }).ended).rejects.toThrow(
      LogReplaced,
    )
  })
})

describe('gateway.audit.v1', () => {
  const published = (log: ReturnType<typeof testLog>) => log.records(AUDIT).map(({ value }) => readEnvelope(value!)!)

  test('gets each decision once, under its id, after a restart and after the database was made anew', async () => {
    const log = testLog()
    const { decide, tip } = chain()
    const write = async (id: string) => log.append(CONTROL, 0, [decide([tenantCreated(id)])])
    const run = async (count: number) => {
      const worker = store.follow(log)
      await eventually(`${count} published`, async () => published(log).length >= count)
      const [row] = await eventually('the position', async () => {
        const rows = await store.sql<{ next: number }[]>`select next_offset as next from gatelog.audit_publication`
        return rows[0]?.next === count ? rows : null
      })
      expect(row!.next).toBe(count)
      await worker.stop()
    }
    await write('ten_1')
    await write('ten_2')
    await run(2)
    await write('ten_3')
    await run(3)
    await store.sql`drop schema gatelog cascade`
    await write('ten_4')
    await run(4)
    const all = published(log)
    expect(all.map(({ sequence }) => sequence)).toEqual([0, 1, 2, 3])
    expect(all.at(-1)).toMatchObject({ id: tip(), type: 'audit.recorded', subject: 'ten_4' })
    for (const { data } of all) expect(Value.Check(AuditRecorded, data)).toBe(true)
  })

  test('what the log refuses for ever is reported, and the rest is published', async () => {
    const log = testLog()
    const { decide } = chain()
    for (const id of ['ten_1', 'ten_2', 'ten_3']) await log.append(CONTROL, 0, [decide([tenantCreated(id)])])
    const refusing = log.view({
      beforeAppend: ({ topic, records }) =>
        topic === AUDIT && records.some(({ key }) => key === 'ten_2') ? 'refused' : 'none',
    })
    const told: unknown[] = []
    const diagnostics = { ...silent, error: (...what: unknown[]) => void told.push(what) }
    store.follow(refusing, { diagnostics })
    await eventually('the others published', async () => published(log).length === 2)
    expect(published(log).map(({ subject }) => subject)).toEqual(['ten_1', 'ten_3'])
    await eventually('it was told', async () => told.length > 0)
    expect(told).toEqual([['audit_events_refused', expect.objectContaining({ count: 1 })]])
  })

  test('a decision too large with its rows is published without them', async () => {
    const log = testLog()
    const { decide } = chain()
    const long = 'x'.repeat(200)
    const ids = Array.from({ length: 60 }, (_, at) => `ten_${at}`)
    await log.append(CONTROL, 0, [
      decide(ids.map((id) => ({ type: 'tenant.created', data: { ...tenantCreated(id).data, name: long } }))),
      decide(ids.map((id) => ({ type: 'tenant.replaced', data: { id, name: `${long}y`, plan: null } }))),
    ])
    store.follow(log)
    await eventually('both published', async () => log.records(AUDIT).length === 2)
    expect(published(log).map(({ data }) => (data as AuditRecorded).truncated)).toEqual([false, true])
  })
})
