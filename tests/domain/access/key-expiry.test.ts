// What an expired key is good for: nothing that makes it work again by the way.
import { expect, test } from 'bun:test'
import { type ApiKeyCommand, decideApiKey } from '../../../src/domain/access/api-key.ts'
import { decideRevert } from '../../../src/domain/revert.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { keyIssued, newWorld, refusal, tenantCreated } from '../world.ts'

const NOW = Date.UTC(2026, 5, 1)
const END = new Date(NOW).toISOString()
const LATER = new Date(NOW + 1_000).toISOString()
const root = { scopes: ['*'] }

/** The refusal, or the events, of taking back a change of a key, at a moment. */
const takenBack = (issued: string | null, patch: Partial<ApiKeyCommand & { do: 'change' }>, nowMs: number) => {
  const world = newWorld([tenantCreated('ten_a'), keyIssued('key_1', 'ten_a', { expires_at: issued })])
  const change = { do: 'change', id: 'key_1', granter: root, managed_by: 'api', ...patch } as const
  const changes = world.apply(decideApiKey(world.state, change))
  const context = { decisionId: 'd', granter: root, dataKeyIds: new Set<string>(), newIds: ['ovr_1'], nowMs }
  return () => decideRevert(world.state, { ...context, changes })
}

test('an end that was set is taken back before it comes, and not afterwards', () => {
  for (const issued of [null, LATER]) {
    const before = takenBack(issued, { expires_at: END }, NOW - 1)()
    expect(before.map(({ type }) => type)).toEqual(['decision.reverted', 'api_key.changed'])
    expect(before[1]!.data.expires_at as string | null).toBe(issued)
    const after = takenBack(issued, { expires_at: END }, NOW)
    expect(refusal(after)).toEqual(['conflict', null])
    expect(after).toThrow(/key_1 has expired: .*"expires_at"/)
  }
})

test('of an expired key is taken back what does not make it work again', () => {
  expect(takenBack(END, { name: 'renamed' }, NOW)()).toHaveLength(2)
  expect(takenBack(END, { expires_at: LATER }, NOW)()).toHaveLength(2)
})

test('an expired key is not rotated when somebody asks; what settings say is', () => {
  const { state } = newWorld([tenantCreated('ten_a'), keyIssued('key_1', 'ten_a', { expires_at: END })])
  const rotate = { do: 'rotate', id: 'key_1', digest: sha256Hex('next'), granter: root } as const
  expect(decideApiKey(state, { ...rotate, nowMs: NOW - 1 })[0]?.data).toEqual({
    id: 'key_1',
    digest: sha256Hex('next'),
  })
  expect(refusal(() => decideApiKey(state, { ...rotate, nowMs: NOW }))).toEqual(['conflict', 'expires_at'])
  expect(decideApiKey(state, rotate)).toHaveLength(1)
})
