// Which answers wait for the other instances: those of what takes something away, and of credentials.
import { expect, test } from 'bun:test'
import type { RowChange } from '../../../src/domain/kernel/tables.ts'
import { isAwaited } from '../../../src/upkeep/instances/urgent.ts'

const KEY = {
  id: 'key_a',
  digest: 'd',
  status: 'active',
  name: 'a',
  scopes: ['inference', 'usage:read'],
  expires_at: null as string | null,
  routing_policy_id: 'pol_a',
  rate_limits: { rpm: 10, tpm: null },
}
const change = (before: object | null, after: object | null): RowChange =>
  ({ table: 'keys', id: 'key_a', before, after }) as RowChange

test('a key that is withdrawn, whichever way, and none that is given more', () => {
  const [soon, late] = ['2026-11-20T00:00:00.000Z', '2027-01-01T00:00:00.000Z']
  const until = (expires_at: string | null) => ({ ...KEY, expires_at })
  expect(isAwaited(change(KEY, null))).toBe(true)
  expect(isAwaited(change(KEY, { ...KEY, status: 'revoked' }))).toBe(true)
  expect(isAwaited(change(KEY, { ...KEY, digest: 'e' }))).toBe(true)
  expect(isAwaited(change(KEY, until(soon)))).toBe(true)
  expect(isAwaited(change(until(late), until(soon)))).toBe(true)
  for (const [before, after] of [
    [KEY, { ...KEY, name: 'b' }],
    [until(soon), until(late)],
    [until(soon), until(null)],
    [until(soon), { ...until(soon), name: 'b' }],
  ] as const)
    expect(isAwaited(change(before, after))).toBe(false)
})

test('a credential that is made, since the next request may reach another instance', () => {
  const of = (table: string, before: object | null, after: object | null) =>
    isAwaited({ ...change(before, after), table } as RowChange)
  expect(isAwaited(change(null, KEY))).toBe(true)
  const session = { id: 'ses_a', seen_at: '2026-11-20T00:00:00.000Z' }
  expect(of('sessions', null, session)).toBe(true)
  expect(of('sessions', session, null)).toBe(true)
  expect(of('sessions', session, { ...session, seen_at: '2026-11-20T00:15:00.000Z' })).toBe(false)
  expect(of('operators', null, { id: 'op_a' })).toBe(true)
  expect(of('tenants', null, { id: 'ten_a' })).toBe(false)
})

test('a key that is narrowed, in whichever way, and none that is widened', () => {
  const narrowed = [
    { scopes: ['inference'] },
    { scopes: ['inference', 'keys:admin'] },
    { routing_policy_id: 'pol_b' },
    { routing_policy_id: null },
    { rate_limits: { rpm: 9 } },
    { rate_limits: { rpm: 10, tpm: 1_000 } },
    { rate_limits: { rpm: 20, max_parallel: 1 } },
  ]
  for (const fields of narrowed) expect(isAwaited(change(KEY, { ...KEY, ...fields }))).toBe(true)
  const widened = [
    { scopes: ['usage:read', 'inference', 'keys:admin'] },
    { rate_limits: { rpm: 11 } },
    { rate_limits: null },
  ]
  for (const fields of widened) expect(isAwaited(change(KEY, { ...KEY, ...fields }))).toBe(false)
})
