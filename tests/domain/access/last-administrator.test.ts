// Nobody locks everybody out: who has every scope, after which decisions.
import { describe, expect, test } from 'bun:test'
import { requireAdministrator } from '../../../src/domain/access/last-administrator.ts'
import type { EventRecord } from '../../../src/domain/kernel/decision.ts'
import { decideRevert } from '../../../src/domain/revert.ts'
import { keyIssued, newWorld, refusal, tenantCreated } from '../world.ts'

const NOW = Date.UTC(2026, 5, 1)
const at = (ms: number) => new Date(ms).toISOString()
const revoked = (id: string): EventRecord => ({ type: 'api_key.revoked', data: { id } })
const changed = (id: string, data: object): EventRecord => ({ type: 'api_key.changed', data: { id, ...data } })
const operatorGone = (id: string): EventRecord => ({ type: 'operator.deleted', data: { id } })
const tenantGone = (id: string): EventRecord => ({ type: 'tenant.deleted', data: { id } })
const operatorMade = (id: string): EventRecord => ({
  type: 'operator.created',
  data: { id, name_digest: id, key_id: `dek_${id}`, sealed: 'x' },
})

const BASE = [tenantCreated('ten_a'), tenantCreated('ten_b'), keyIssued('key_1', 'ten_a', { scopes: ['*'] })]
const isRefused = (before: readonly EventRecord[], ...events: readonly EventRecord[]) => {
  const { state } = newWorld([...BASE, ...before])
  try {
    requireAdministrator(state, events, NOW)
    return false
  } catch {
    expect(refusal(() => requireAdministrator(state, events, NOW))).toEqual(['conflict', null])
    return true
  }
}

const LOSSES: readonly (readonly [string, EventRecord])[] = [
  ['revoked', revoked('key_1')],
  ['left without *', changed('key_1', { scopes: ['providers:admin'] })],
  ['given an end', changed('key_1', { expires_at: at(NOW + 1_000) })],
  ['removed with its tenant', tenantGone('ten_a')],
]

describe.each(LOSSES)('the last key with * that is %s', (_, event) => {
  test('is refused while nobody else has every scope', () => {
    expect(isRefused([], event)).toBe(true)
    expect(isRefused([keyIssued('key_2', 'ten_b', { scopes: ['keys:admin', 'providers:admin'] })], event)).toBe(true)
    expect(isRefused([keyIssued('key_2', 'ten_b', { scopes: ['*'], expires_at: at(NOW) })], event)).toBe(true)
    expect(isRefused([keyIssued('key_2', 'ten_b', { scopes: ['*'] }), revoked('key_2')], event)).toBe(true)
  })

  test('is not the last where another works, or an operator is there', () => {
    expect(isRefused([keyIssued('key_2', 'ten_b', { scopes: ['*'], expires_at: at(NOW + 1) })], event)).toBe(false)
    expect(isRefused([operatorMade('op_1')], event)).toBe(false)
  })
})

test('several may not go at once either, nor the last operator where no key has *', () => {
  const second = keyIssued('key_2', 'ten_b', { scopes: ['*'] })
  expect(isRefused([second], revoked('key_1'), revoked('key_2'))).toBe(true)
  expect(isRefused([operatorMade('op_1')], operatorGone('op_1'))).toBe(false)
  expect(isRefused([operatorMade('op_1'), revoked('key_1')], operatorGone('op_1'))).toBe(true)
  expect(isRefused([operatorMade('op_1'), operatorMade('op_2'), revoked('key_1')], operatorGone('op_1'))).toBe(false)
})

test('what takes nothing from who has every scope is nobody’s last way in', () => {
  const prolonged = [changed('key_1', { expires_at: at(NOW + 5) })]
  for (const event of [
    changed('key_1', { name: 'x' }),
    changed('key_1', { scopes: ['*', 'inference'] }),
    changed('key_1', { expires_at: null }),
    tenantGone('ten_b'),
  ])
    expect(isRefused(prolonged, event)).toBe(false)
  expect(isRefused(prolonged, changed('key_1', { expires_at: at(NOW + 9) }))).toBe(false)
  expect(isRefused(prolonged, changed('key_1', { expires_at: at(NOW + 4) }))).toBe(true)
  expect(isRefused([keyIssued('key_2', 'ten_b')], revoked('key_2'))).toBe(false)
})

test('the decision that made everything is not taken back while nobody would be left', () => {
  const { state, apply } = newWorld()
  const changes = apply(BASE)
  const revert = {
    ...{ decisionId: changes[0] && (changes[0].after as { revision: string }).revision, changes },
    ...{ granter: { scopes: ['*'] }, dataKeyIds: new Set<string>(), newIds: ['o1', 'o2', 'o3'], nowMs: NOW },
  } as Parameters<typeof decideRevert>[1]
  expect(refusal(() => decideRevert(state, revert))).toEqual(['conflict', null])
  apply([operatorMade('op_1')])
  expect(decideRevert(state, revert).map(({ type }) => type)).toContain('api_key.revoked')
})
