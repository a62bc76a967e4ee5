// `/admin/v1/log`: every record with its verdict, one record with what it changed, and taking a decision back.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { GENESIS, writeDecision } from '../../../../src/domain/kernel/decision.ts'
import { CONTROL } from '../../../../src/state/fold.ts'
import { writeTurn } from '../../../../src/state/write-turns.ts'
import { keyIssued, modelCreated, providerCreated, tenantCreated } from '../../../domain/world.ts'
import { macKey } from '../../../state/support.ts'
import { type RealGateway, startRealGateway } from '../world/real-history.ts'

let gateway: RealGateway
beforeAll(async () => {
  gateway = await startRealGateway()
})
afterAll(() => gateway.close())

type Row = Record<string, unknown>
const log = async (query = '') => {
  const { body } = await gateway.call('GET', `/log${query}`)
  return body as { decisions: Row[]; total: number; next_before: number | null }
}
const revisionOf = (answer: { headers: Headers }) => answer.headers.get('x-gateway-revision')!
const errorOf = (answer: { body: Row }) => answer.body.error as { message: string; details: Row | null }

describe('the log', () => {
  test('shows what counted, what lost and what is no decision, newest first, each once over any pages', async () => {
    const first = await gateway.call('POST', '/tenants', { body: { slug: 'shown', name: 'Shown' } })
    const decision = {
      parent: GENESIS,
      at: new Date().toISOString(),
      actor: { type: 'key', id: 'key_old' },
      cause: null,
      v: 1,
      events: [tenantCreated('ten_lost')],
    } as const
    const lost = writeDecision(decision, macKey)
    const forged = Buffer.from(lost.bytes)
    forged[forged.length - 3] = forged[forged.length - 3] === 0x30 ? 0x31 : 0x30
    const values = [lost.bytes, forged, Buffer.from('no decision'), writeTurn({ instance: 'i', nonce: 'n' }, macKey)]
    await gateway.log.append(
      CONTROL,
      0,
      values.map((value) => ({ key: null, value })),
    )
    const { decisions, total } = await log()
    expect(decisions.map(({ verdict }) => verdict).slice(0, 6)).toEqual([
      'turn',
      'unreadable',
      'forged',
      'lost',
      'counted',
      'counted',
    ])
    expect(decisions[3]).toMatchObject({ id: lost.id, actor: { id: 'key_old' }, event_types: ['tenant.created'] })
    expect(decisions[2]).toMatchObject({ actor: null, event_types: [], reason: 'the MAC is not valid' })
    expect(decisions[4]).toMatchObject({ id: revisionOf(first), actor: { type: 'key', id: 'key_admin' } })
    const paged: unknown[] = []
    for (let before: number | null = total; before !== null; ) {
      const page = await log(`?limit=2&before=${before}`)
      paged.push(...page.decisions)
      before = page.next_before
    }
    expect(paged).toEqual(decisions)
    expect((await log('?limit=2&offset=1')).decisions).toEqual(decisions.slice(1, 3))
    for (const name of ['limit', 'offset', 'before']) {
      const refused = await gateway.call('GET', `/log?${name}=x`)
      expect([refused.status, refused.body.error]).toMatchObject([400, { param: name }])
    }
  })

  test('one record, by id or offset, shows events and rows before and after, without what is secret', async () => {
    const made = await gateway.call('POST', '/providers', {
      body: { name: 'sealed', kind: 'openai', base_url: 'https://p.example/v1' },
    })
    const sealed = await gateway.call('PUT', `/providers/${made.body.id}/credential`, {
      body: { secret: 'sk-very-secret-1234' },
    })
    const revision = revisionOf(sealed)
    const record = await gateway.call('GET', `/log/${revision}`)
    expect(record.body).toMatchObject({
      id: revision,
      verdict: 'counted',
      events: [{ type: 'credential.sealed', data: { sealed: '[sealed]', hint: '1234' } }],
      changes: [
        {
          table: 'providers',
          id: made.body.id,
          before: { credential: null },
          after: { credential: { sealed: '[sealed]' } },
        },
      ],
      changes_total: 1,
    })
    expect((await gateway.call('GET', `/log/${record.body.offset}`)).body).toEqual(record.body)
    const { decisions } = await log('?limit=1')
    expect(decisions[0]).toEqual(
      Object.fromEntries(Object.entries(record.body).filter(([name]) => !/^(events|changes)/.test(name))),
    )
    const key = await gateway.call('POST', '/keys', {
      body: { tenant_id: 'ten_default', name: 'k', scopes: ['inference'] },
    })
    const issued = await gateway.call('GET', `/log/${revisionOf(key)}`)
    expect(JSON.stringify(issued.body)).not.toMatch(/[0-9a-f]{64}.*"digest":"[0-9a-f]{64}"/)
    expect(issued.body).toMatchObject({ changes: [{ before: null, after: { digest: '[masked]' } }] })
    for (const id of ['f'.repeat(64), '99999999', 'ten_default'])
      expect((await gateway.call('GET', `/log/${id}`)).status).toBe(404)
  })

  test('a key of a tenant does not read it', async () => {
    const { body } = await gateway.call('POST', '/keys', {
      body: { tenant_id: 'ten_default', name: 'reader', scopes: ['usage:read', 'tenants:admin'] },
    })
    for (const path of ['/log', `/log/${'f'.repeat(64)}`])
      expect((await gateway.call('GET', path, { key: String(body.plaintext) })).status).toBe(403)
  })
})

// docs/behaviour.md: "History"
describe('a revert', () => {
  const revert = (revision: string, query = '') => gateway.call('POST', `/log/${revision}/revert${query}`)
  const refusedWith = async (revision: string, message: RegExp) => {
    const { tip } = gateway.instance.live
    const answer = await revert(revision)
    expect([answer.status, errorOf(answer).message]).toEqual([409, expect.stringMatching(message)])
    expect(gateway.instance.live.tip).toBe(tip)
    return answer
  }

  test('restores what was changed, is one decision, and can be tried before', async () => {
    const made = await gateway.call('POST', '/tenants', { body: { slug: 'back', name: 'Before', plan: 'small' } })
    const path = `/tenants/${made.body.id}`
    const changed = await gateway.call('PUT', path, { body: { name: 'After' } })
    const { tip } = gateway.instance.live
    const dry = await revert(revisionOf(changed), '?dry_run=true')
    expect([dry.status, dry.body]).toMatchObject([
      200,
      { reverted: false, dry_run: true, reverts: revisionOf(changed) },
    ])
    expect(gateway.instance.live.tip).toBe(tip)
    const done = await revert(revisionOf(changed))
    expect([done.status, done.body]).toMatchObject([
      200,
      { reverted: true, events: dry.body.events, rows: [{ table: 'tenants', id: made.body.id }] },
    ])
    expect((await gateway.call('GET', path)).body).toMatchObject({ name: 'Before', plan: 'small' })
    const { decisions } = await log('?limit=1')
    expect(decisions[0]).toMatchObject({ id: revisionOf(done), reverts: revisionOf(changed) })
    // And the revert itself can be taken back.
    expect((await revert(revisionOf(done))).status).toBe(200)
    expect((await gateway.call('GET', path)).body).toMatchObject({ name: 'After', plan: null })
  })

  test('a repeat with the same Idempotency-Key is the first result, and is written once', async () => {
    const made = await gateway.call('POST', '/tenants', { body: { slug: 'once', name: 'Once' } })
    const headers = { 'idempotency-key': 'revert-once' }
    const path = `/log/${revisionOf(made)}/revert`
    const first = await gateway.call('POST', path, { headers })
    const again = await gateway.call('POST', path, { headers })
    expect([again.status, again.body]).toEqual([200, first.body])
    expect(revisionOf(again)).toBe(revisionOf(first))
  })

  test('of a deleted provider brings back its models; of one with an erased secret nothing', async () => {
    await gateway.decide([providerCreated('prov_a'), modelCreated('mod_a', 'prov_a'), modelCreated('mod_b', 'prov_a')])
    const deleted = await gateway.call('DELETE', '/providers/prov_a')
    expect((await revert(revisionOf(deleted))).status).toBe(200)
    expect((await gateway.call('GET', '/models/mod_b')).body).toMatchObject({ name: 'mod_b', provider_id: 'prov_a' })
    await gateway.call('PUT', '/providers/prov_a/credential', { body: { secret: 'sk-very-secret-1234' } })
    const again = await gateway.call('DELETE', '/providers/prov_a')
    await refusedWith(revisionOf(again), /data key/)
    expect((await gateway.call('GET', '/models/mod_a')).status).toBe(404)
  })

  test.each<[string, object, object]>([
    ['/policies', { name: 'r', max_cost_usd: 1 }, { name: 'r', strategy: 'weighted' }],
    ['/endpoints', { slug: 'r', aliases: ['r-alias'] }, { slug: 'r', description: 'other' }],
    ['/budgets', { limit_usd: 10, hard_cap_usd: 1 }, { limit_usd: 20, timezone: 'Europe/Berlin' }],
    ['/cache/policies', { name: 'r', ttl_seconds: 60 }, { name: 'r', ttl_seconds: 90, mode: 'prefix' }],
    ['/tool-policies', { name: 'r', max_steps: 3 }, { name: 'r', mode: 'automatic', enabled: false }],
  ])('of a change and of a deletion restores what %s said', async (path, body, other) => {
    const { created_at: _, updated_at: __, revision: ___, ...was } = (await gateway.call('PUT', path, { body })).body
    const changed = await gateway.call('PUT', path, { body: other })
    expect((await revert(revisionOf(changed))).status).toBe(200)
    expect((await gateway.call('GET', `${path}/${was.id}`)).body).toMatchObject(was)
    const deleted = await gateway.call('DELETE', `${path}/${was.id}`)
    expect((await revert(revisionOf(deleted))).status).toBe(200)
    expect((await gateway.call('GET', `${path}/${was.id}`)).body).toMatchObject(was)
  })

  test('of a deleted tenant brings back all that fell with it', async () => {
    const { body: tenant } = await gateway.call('POST', '/tenants', { body: { slug: 'whole', name: 'Whole' } })
    const owned = { tenant_id: tenant.id }
    const belongings: readonly (readonly [method: string, path: string, body: object])[] = [
      ['PUT', '/budgets', { limit_usd: 5 }],
      ['PUT', '/policies', { name: 'w' }],
      ['PUT', '/endpoints', { slug: 'w' }],
      ['PUT', '/cache/policies', { name: 'w', ttl_seconds: 4 }],
      ['PUT', '/tool-policies', { name: 'w' }],
      ['POST', '/tools', { name: 'w' }],
      ['POST', '/overrides', { kind: 'block', target: 'model:w' }],
    ]
    for (const [method, path, body] of belongings) await gateway.call(method, path, { body: { ...body, ...owned } })
    const totals = () =>
      Promise.all(
        belongings.map(async ([, path]) => {
          const { status, body } = await gateway.call('GET', `${path}?tenant_id=${tenant.id}`)
          return [path, status, body.total]
        }),
      )
    const before = await totals()
    expect(before.every(([, , total]) => total !== 0)).toBe(true)
    const deleted = await gateway.call('DELETE', `/tenants/${tenant.id}`)
    expect(await totals()).not.toEqual(before)
    expect((await revert(revisionOf(deleted))).status).toBe(200)
    expect(await totals()).toEqual(before)
  })

  test('names the later decisions that stand in the way, also when the row is gone', async () => {
    const made = await gateway.call('POST', '/tenants', { body: { slug: 'later', name: 'One' } })
    const path = `/tenants/${made.body.id}`
    const second = await gateway.call('PUT', path, { body: { name: 'Two' } })
    const third = await gateway.call('PUT', path, { body: { name: 'Three' } })
    const answer = await refusedWith(revisionOf(second), new RegExp(revisionOf(third)))
    expect(errorOf(answer).details).toMatchObject({ later: [{ revision: revisionOf(third) }] })
    const gone = await gateway.call('DELETE', path)
    await refusedWith(revisionOf(third), new RegExp(revisionOf(gone)))
  })

  test('takes nothing along that came later', async () => {
    const made = await gateway.call('POST', '/tenants', { body: { slug: 'owner', name: 'Owner' } })
    await gateway.call('PUT', '/policies', { body: { name: 'own', tenant_id: made.body.id } })
    await refusedWith(revisionOf(made), /policies pol_\S+ was changed since by the decision [0-9a-f]{64}/)
  })

  test('of a tenant that has keys since names them, and asks for nothing that a revert does not take', async () => {
    const made = await gateway.call('POST', '/tenants', { body: { slug: 'keyed', name: 'Keyed' } })
    const issue = (name: string) =>
      gateway.call('POST', '/keys', { body: { tenant_id: made.body.id, name, scopes: ['inference'] } })
    const keys = [(await issue('one')).body.id, (await issue('two')).body.id]
    const answer = await refusedWith(revisionOf(made), /has the active key key_\S+ and 1 more: revoke what was issued/)
    expect(errorOf(answer).message).toContain(String(keys[0]))
    expect(errorOf(answer).message).not.toContain('force')
    // Revoked ones are rows of the tenant still: they came later.
    for (const id of keys) await gateway.call('DELETE', `/keys/${id}`)
    const after = await refusedWith(revisionOf(made), /keys key_\S+ was changed since/)
    expect(errorOf(after).message).not.toContain('force')
  })

  test('never makes a key work again', async () => {
    await gateway.decide([tenantCreated('ten_keys', 'keys'), keyIssued('key_a', 'ten_keys')])
    const rotated = await gateway.call('POST', '/keys/key_a/rotate')
    await refusedWith(revisionOf(rotated), /former secret/)
    const revoked = await gateway.call('DELETE', '/keys/key_a')
    await refusedWith(revisionOf(revoked), /revoked/)
    await refusedWith(revisionOf(await gateway.call('DELETE', '/tenants/ten_keys?force=true')), /key_a was removed/)
    const issued = await gateway.call('POST', '/keys', {
      body: { tenant_id: 'ten_default', name: 'oops', scopes: ['*'] },
    })
    expect((await revert(revisionOf(issued))).status).toBe(200)
    expect((await gateway.call('GET', '/tenants', { key: String(issued.body.plaintext) })).status).toBe(401)
  })

  test('of an override lets the one before decide again', async () => {
    await gateway.decide([providerCreated('prov_c'), modelCreated('mod_c', 'prov_c')])
    const cap = (max_cost_usd: number) =>
      gateway.call('POST', '/overrides', { body: { kind: 'cap', target: 'model:mod_c', value: { max_cost_usd } } })
    const first = await cap(1)
    const second = await cap(2)
    expect((await revert(revisionOf(second))).status).toBe(200)
    const inForce = async () =>
      ((await gateway.call('GET', '/overrides?in_force=true')).body.overrides as Row[])
        .filter(({ target }) => target === 'model:mod_c')
        .map(({ value }) => value)
    expect(await inForce()).toEqual([{ max_cost_usd: 1 }])
    await refusedWith(revisionOf(first), /was changed since/)
  })

  test('of the record of a synchronisation says which decision created the models', async () => {
    const made = await gateway.call('POST', '/providers', { body: { name: 'listed', kind: 'openai' } })
    const revisions = ['a'.repeat(64)]
    const counts = { created: 1, skipped: 0, total: 1, capability_source: 'kind', capabilities_filled: 1, revisions }
    const result = { check: 'sync', status: 'passed', latency_ms: 1, detail: 'it lists 1', sync: counts }
    const data = { id: 'test_sync', provider_id: made.body.id, kind: 'sync', success: true, results: [result] }
    const recorded = await gateway.decide([{ type: 'provider.tested', data }])
    await refusedWith(recorded, new RegExp(`created its models is ${revisions[0]}`))
  })

  test('is refused for what is no decision, or none that can be taken back', async () => {
    const { decisions } = await log('?limit=1000')
    const lost = decisions.find(({ verdict }) => verdict === 'lost')!
    await refusedWith(String(lost.id), /did not count \(lost\)/)
    const start = decisions.at(-1)!
    await refusedWith(String(start.id), /chain/)
    expect((await revert('f'.repeat(64))).status).toBe(404)
    expect((await gateway.call('POST', `/log/${start.id}/revert?dry_run=maybe`)).body.error).toMatchObject({
      param: 'dry_run',
    })
  })
})
