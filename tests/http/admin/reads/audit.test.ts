// `/admin/v1/audit` on a real Postgres.
import { describe, expect, test } from 'bun:test'
import { AuditRow } from '../../../../src/http/admin/answers/reads.ts'
import { flawsOf, gatewayOn, HOUR_MS, NOW_MS, readWorld } from '../world/read-world.ts'

const reads = readWorld()

describe('GET /audit', () => {
  const said = async (query: string, key?: string) => {
    const { status, body } = await reads.gateway.call('GET', `/audit${query}`, key === undefined ? {} : { key })
    expect([query, status, body.error ?? null]).toEqual([query, 200, null])
    return (body.events as { action: string; subject_id: string }[]).map(({ subject_id }) => subject_id)
  }

  test('everything, newest first, with its filters', async () => {
    expect(await said('')).toEqual(['prov_1', 'key_b', 'key_a', 'ten_other', 'ten_default'])
    expect(await said('?resource=api_key')).toEqual(['key_b', 'key_a'])
    expect(await said('?tenant_id=ten_other')).toEqual(['key_b', 'ten_other'])
    expect(await said('?from=24h&action=create&limit=2')).toEqual(['prov_1', 'key_b'])
    expect(await said('?subject_id=key_a&actor_id=key_admin')).toEqual(['key_a'])
    expect(await said('?to=24h')).toEqual(['ten_other', 'ten_default'])
    const { body } = await reads.gateway.call('GET', '/audit?resource=api_key&limit=1')
    expect(body).toMatchObject({ total: 2, limit: 1, offset: 0 })
    expect((body.events as unknown[])[0]).toMatchObject({
      actor: { type: 'key', id: 'key_admin' },
      at: new Date(NOW_MS - 2 * HOUR_MS).toISOString(),
      before: null,
      after: { id: 'key_b', digest: '[masked]' },
    })
  })

  test('rows are as the document says', async () => {
    const { events } = (await reads.gateway.call('GET', '/audit')).body as { events: object[] }
    expect(events).toHaveLength(5)
    for (const event of events) expect(flawsOf(AuditRow, event)).toEqual([])
  })

  test('a key without * sees what belongs to its tenant', async () => {
    expect(await said('', reads.ownKey)).toEqual(['key_a', 'ten_default'])
    expect((await reads.gateway.call('GET', '/audit?tenant_id=ten_other', { key: reads.ownKey })).status).toBe(404)
  })

  test('who names a revision waits until the audit shows it', async () => {
    const ahead = gatewayOn(reads.sql)
    Object.assign(ahead.deps.live, { reached: async () => true }) // folded here; the audit log may be behind
    const status = async (revision: string) =>
      (await ahead.call('GET', '/audit', { headers: { 'x-gateway-min-revision': revision } })).status
    expect(await status(reads.tip)).toBe(200)
    expect(await status('f'.repeat(64))).toBe(504)
  }, 60_000)
})
