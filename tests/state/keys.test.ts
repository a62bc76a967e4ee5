import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { ApiKeyRow } from '../../src/domain/api-key.ts'
import { ControlState } from '../../src/domain/control.ts'
import { sha256Hex } from '../../src/lib/digest.ts'
import { Columns, openKeyIndex } from '../../src/state/keys.ts'
import type { FoldedBatch } from '../../src/state/port.ts'

const rowOf = (id: string, secret: string, more: Partial<ApiKeyRow> = {}): ApiKeyRow => ({
  id,
  tenant_id: 'ten_1',
  name: 'k',
  scopes: ['inference'],
  status: 'active',
  digest: sha256Hex(secret),
  expires_at: null,
  routing_policy_id: null,
  rate_limits: null,
  revoked_at: null,
  managed_by: 'api',
  created_at: '',
  updated_at: '',
  revision: '',
  ...more,
})

describe('the key index', () => {
  test('answers what authentication needs, as one frozen object', () => {
    const index = new Columns()
    index.put(
      rowOf('key_1', 's1', { expires_at: '2027-01-01T00:00:00.000Z', routing_policy_id: 'pol_1', scopes: ['a', 'b'] }),
    )
    const entry = index.lookup(sha256Hex('s1'))!
    expect(entry).toEqual({
      id: 'key_1',
      tenantId: 'ten_1',
      scopes: ['a', 'b'],
      expiresAtMs: Date.parse('2027-01-01T00:00:00.000Z'),
      routingPolicyId: 'pol_1',
    })
    expect(index.lookup(sha256Hex('s1'))).toBe(entry)
    expect(Object.isFrozen(entry)).toBe(true)
    expect(index.lookup(sha256Hex('s2'))).toBeNull()
    for (const text of ['', 'zz', '0'.repeat(64), sha256Hex('s1').slice(2)]) expect(index.lookup(text)).toBeNull()
  })

  test('tenants and policies that no key has any more take no room', () => {
    const index = new Columns()
    const row = (at: number) => rowOf(`key_${at}`, `s${at}`, { tenant_id: `ten_${at}`, routing_policy_id: `pol_${at}` })
    for (let at = 0; at < 50; at++) {
      index.put(row(at))
      index.put(row(at)) // a change of the same key
      if (at > 1) index.remove(row(at - 2))
    }
    expect(index.sharedValues).toBe(5)
    expect(index.lookup(sha256Hex('s48'))).toMatchObject({ tenantId: 'ten_48', routingPolicyId: 'pol_48' })
    expect(index.lookup(sha256Hex('s49'))).toMatchObject({ tenantId: 'ten_49', routingPolicyId: 'pol_49' })
    expect(index.lookup(sha256Hex('s47'))).toBeNull()
  })

  test('a key whose expiry cannot be read has expired', () => {
    const index = new Columns()
    index.put(rowOf('key_1', 's1', { expires_at: 'some time next year' }))
    expect(index.lookup(sha256Hex('s1'))?.expiresAtMs).toBe(0)
  })

  test('agrees with a map over any issues, rotations and revocations', () => {
    const step = fc.record({ id: fc.nat(30), secret: fc.nat(40), what: fc.constantFrom('issue', 'rotate', 'revoke') })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const index = new Columns()
        const rows = new Map<string, ApiKeyRow>()
        const used = () => new Set([...rows.values()].map(({ digest }) => digest))
        for (const { id: number, secret, what } of steps) {
          const id = `key_${number}`
          const row = rows.get(id)
          if (what === 'revoke') {
            if (row !== undefined) index.remove(row)
            rows.delete(id)
          } else if (!used().has(sha256Hex(`s${secret}`))) {
            if (row !== undefined) index.remove(row)
            const fresh = rowOf(id, `s${secret}`, { tenant_id: `ten_${number % 3}` })
            index.put(fresh)
            rows.set(id, fresh)
          }
        }
        expect(index.size).toBe(rows.size)
        const byDigest = new Map([...rows.values()].map((row) => [row.digest, row]))
        for (let secret = 0; secret <= 40; secret++) {
          const expected = byDigest.get(sha256Hex(`s${secret}`))
          const found = index.lookup(sha256Hex(`s${secret}`))
          expect(found === null ? undefined : [found.id, found.tenantId]).toEqual(
            expected && [expected.id, expected.tenant_id],
          )
        }
      }),
    )
  })

  test('grows: ten thousand keys, each found, none after its revocation', () => {
    const index = new Columns()
    const rows = Array.from({ length: 10_000 }, (_, number) => rowOf(`key_${number}`, `s${number}`))
    for (const row of rows) index.put(row)
    for (const row of rows) expect(index.lookup(row.digest)?.id).toBe(row.id)
    for (const row of rows.slice(0, 5_000)) index.remove(row)
    expect(index.size).toBe(5_000)
    for (const [number, row] of rows.entries())
      expect(index.lookup(row.digest)?.id).toBe(number < 5_000 ? undefined! : row.id)
  })

  test('follows the fold: what was revoked, or is no longer understood, is gone at once', () => {
    const state = new ControlState()
    const [one, two] = [rowOf('key_1', 's1'), rowOf('key_2', 's2')]
    state.apply([one, two].map((after) => ({ table: 'keys', id: after.id, before: null, after })))
    const refused = new Set<string>()
    let tell: (batch: FoldedBatch) => void = () => {}
    const index = openKeyIndex({
      control: state,
      refused,
      subscribe: (listener) => {
        tell = listener
        listener({ changes: [], refused: [] })
        return () => {}
      },
    })
    expect(index.size).toBe(2)
    const revoked = { ...one, status: 'revoked' as const }
    state.apply([{ table: 'keys', id: 'key_1', before: one, after: revoked }])
    tell({ changes: [{ table: 'keys', id: 'key_1', before: one, after: revoked }], refused: [] })
    expect(index.lookup(one.digest)).toBeNull()
    refused.add('key_2')
    tell({ changes: [], refused: ['key_2'] })
    expect(index.lookup(two.digest)).toBeNull()
  })
})
