import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { ApiKeyRow } from '../../../src/domain/access/api-key.ts'
import { ControlState } from '../../../src/domain/control.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { openKeyIndex } from '../../../src/state/indexes/api-keys.ts'
import type { FoldedBatch } from '../../../src/state/port.ts'

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

/** A state as the live fold shows it, to which changes are told. */
const world = () => {
  const state = new ControlState()
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
  const set = (id: string, after: ApiKeyRow | null) => {
    const changes = [{ table: 'keys', id, before: state.table('keys').get(id) ?? null, after }]
    state.apply(changes)
    tell({ changes, refused: [] })
  }
  const refuse = (id: string) => {
    refused.add(id)
    tell({ changes: [], refused: [id] })
  }
  const find = (secret: string) => index.lookup(sha256Hex(secret))
  return { put: (row: ApiKeyRow) => set(row.id, row), remove: (id: string) => set(id, null), refuse, find, index }
}

describe('the key index', () => {
  test('says whether a key that was looked up still stands: revoked, refused, removed or ended it does not', () => {
    const { put, refuse, remove, find, index } = world()
    const ids = ['key_1', 'key_2', 'key_3', 'key_4', 'key_5']
    for (const id of ids) put(rowOf(id, id))
    const entries = ids.map((id) => find(id)!)
    put(rowOf('key_1', 'key_1', { status: 'revoked' }))
    refuse('key_2')
    remove('key_3')
    put(rowOf('key_4', 'key_4', { expires_at: '1970-01-01T00:00:01.000Z' }))
    // With a new text it is the same key.
    put(rowOf('key_5', 'rotated'))
    expect(entries.map((entry) => index.isValid(entry, 1_000))).toEqual([false, false, false, false, true])
    expect(index.isValid(entries[3]!, 999)).toBe(true)
  })

  test('answers what authentication needs, as one frozen object', () => {
    const { put, find, index } = world()
    put(
      rowOf('key_1', 's1', { expires_at: '2027-01-01T00:00:00.000Z', routing_policy_id: 'pol_1', scopes: ['a', 'b'] }),
    )
    const entry = find('s1')!
    expect(entry).toEqual({
      id: 'key_1',
      tenantId: 'ten_1',
      scopes: ['a', 'b'],
      expiresAtMs: Date.parse('2027-01-01T00:00:00.000Z'),
      routingPolicyId: 'pol_1',
    })
    expect(find('s1')).toBe(entry)
    expect(Object.isFrozen(entry)).toBe(true)
    // Members of a frozen list cost ten times as much, at every request.
    expect(Object.isFrozen(entry.scopes)).toBe(false)
    expect(find('s2')).toBeNull()
    for (const text of ['', 'zz', '0'.repeat(64), sha256Hex('s1').slice(2)]) expect(index.lookup(text)).toBeNull()
  })

  test('a key whose expiry cannot be read has expired', () => {
    const { put, find } = world()
    put(rowOf('key_1', 's1', { expires_at: 'some time next year' }))
    expect(find('s1')?.expiresAtMs).toBe(0)
  })

  test('agrees with a map over any issues, rotations and revocations', () => {
    const step = fc.record({
      id: fc.nat(30),
      secret: fc.nat(40),
      what: fc.constantFrom('issue', 'rotate', 'revoke', 'remove'),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const { put, remove, find } = world()
        const rows = new Map<string, ApiKeyRow>()
        const used = () => new Set([...rows.values()].map(({ digest }) => digest))
        for (const { id: number, secret, what } of steps) {
          const id = `key_${number}`
          const row = rows.get(id)
          if (what === 'remove') {
            remove(id)
            rows.delete(id)
          } else if (what === 'revoke') {
            if (row !== undefined) rows.set(id, { ...row, status: 'revoked' })
          } else if (!used().has(sha256Hex(`s${secret}`))) {
            rows.set(id, rowOf(id, `s${secret}`, { tenant_id: `ten_${number % 3}` }))
          }
          if (rows.get(id) !== undefined) put(rows.get(id)!)
          const found = find(`s${secret}`) // what was looked up before is not answered after it has changed
          const holder = [...rows.values()].find(({ digest }) => digest === sha256Hex(`s${secret}`))
          expect(found?.id).toBe(holder?.status === 'active' ? holder.id : undefined!)
        }
        const byDigest = new Map([...rows.values()].map((row) => [row.digest, row]))
        for (let secret = 0; secret <= 40; secret++) {
          const row = byDigest.get(sha256Hex(`s${secret}`))
          const expected = row?.status === 'active' ? [row.id, row.tenant_id] : undefined
          const found = find(`s${secret}`)
          expect(found === null ? undefined : [found.id, found.tenantId]).toEqual(expected)
        }
      }),
    )
  })

  test('S10: ten thousand keys, more than are kept as objects: each is found, none after its revocation', () => {
    const { put, find } = world()
    const rows = Array.from({ length: 10_000 }, (_, number) => rowOf(`key_${number}`, `s${number}`))
    for (const row of rows) put(row)
    for (const [number, row] of rows.entries()) expect(find(`s${number}`)?.id).toBe(row.id)
    for (const row of rows.slice(0, 5_000)) put({ ...row, status: 'revoked' })
    for (const [number, row] of rows.entries())
      expect(find(`s${number}`)?.id).toBe(number < 5_000 ? undefined! : row.id)
  })

  test('S10: what was revoked, or is no longer understood, is gone at once', () => {
    const { put, refuse, find } = world()
    const [one, two] = [rowOf('key_1', 's1'), rowOf('key_2', 's2')]
    put(one)
    put(two)
    expect([find('s1')?.id, find('s2')?.id]).toEqual(['key_1', 'key_2'])
    put({ ...one, status: 'revoked' })
    expect(find('s1')).toBeNull()
    refuse('key_2')
    expect(find('s2')).toBeNull()
  })
})
