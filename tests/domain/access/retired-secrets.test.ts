// Which texts of keys are remembered when they stop working, and how many.
import { expect, test } from 'bun:test'
import { MOST_RETIRED, retiredAtMs } from '../../../src/domain/access/retired-secrets.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { foldingCommit } from '../../http/admin/world/folding-commit.ts'

const NOW_MS = Date.UTC(2026, 10, 20)
const nothing = { expires_at: null, routing_policy_id: null, rate_limits: null }

const world = () => {
  const log = foldingCommit(() => NOW_MS)
  log.apply([{ type: 'tenant.created', data: { id: 't', slug: 't', name: 'T', plan: null, managed_by: 'api' } }])
  const issue = (id: string, text: string, managed_by: 'api' | 'bootstrap') => {
    const data = {
      id,
      tenant_id: 't',
      name: id,
      scopes: ['inference'],
      digest: sha256Hex(text),
      managed_by,
      ...nothing,
    }
    log.apply([{ type: 'api_key.issued', data }])
  }
  const rotate = (id: string, text: string) =>
    log.apply([{ type: 'api_key.rotated', data: { id, digest: sha256Hex(text) } }])
  return { log, issue, rotate, isRetired: (text: string) => retiredAtMs(log.state, sha256Hex(text)) !== null }
}

test('texts that are rotated away or go with their tenant are remembered; those that work are not', () => {
  const { log, issue, rotate, isRetired } = world()
  issue('a', 'first', 'bootstrap')
  issue('b', 'theirs', 'api')
  rotate('a', 'second')
  log.apply([{ type: 'api_key.changed', data: { id: 'a', name: 'other' } }])
  expect([isRetired('first'), isRetired('second'), isRetired('theirs')]).toEqual([true, false, false])
  log.apply([{ type: 'tenant.deleted', data: { id: 't' } }])
  expect([isRetired('first'), isRetired('second'), isRetired('theirs')]).toEqual([true, true, true])
})

test('the newest are remembered, and no number of keys of the API makes a text of the settings forgotten', () => {
  const { log, issue, rotate, isRetired } = world()
  issue('a', 'first', 'bootstrap')
  rotate('a', 'second')
  issue('b', 'text 0', 'api')
  for (let n = 1; n <= MOST_RETIRED + 1; n++) rotate('b', `text ${n}`)
  expect([isRetired('first'), isRetired('text 0'), isRetired('text 1')]).toEqual([true, false, true])
  expect(log.state.table('retired_texts').size).toBe(MOST_RETIRED)
})
