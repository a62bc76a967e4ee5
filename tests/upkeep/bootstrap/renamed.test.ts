// What settings say about a key goes on being about it when the API has renamed the key.
import { expect, test } from 'bun:test'
import type { Bootstrap } from '../../../src/domain/bootstrap.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { type Installation, install } from './installation.ts'

const settings = (limit_usd: number): Bootstrap => ({
  keys: [{ name: 'app', scopes: ['inference'] }],
  overrides: [
    { kind: 'block', target: 'key:app', tenant: 'default', reason: `${limit_usd}` },
    { kind: 'cap', target: 'key:default/app', value: { max_cost_usd: limit_usd } },
  ],
  budgets: [{ scope: { type: 'key', id: 'app' }, limit_usd }],
  cache_rules: [{ name: 'rule', tenant: 'default', ttl_seconds: limit_usd, scopes: ['key:app'] }],
})

/** What is said about keys, by the id of the key. */
const about = ({ log: { state } }: Installation) => ({
  overrides: [...state.table('overrides').rows()].flatMap(([, row]) =>
    row.superseded ? [] : [[row.kind, row.target, row.value?.max_cost_usd ?? row.reason]],
  ),
  budgets: [...state.table('budgets').rows()].map(([, { scope, limit_nano_usd }]) => [scope.id, limit_nano_usd]),
  rules: [...state.table('cache_rules').rows()].map(([, { scopes, ttl_seconds }]) => [...scopes, ttl_seconds]),
})

test('and goes to no key that has its name in the settings by now', async () => {
  const at = install()
  await at.seed(settings(1))
  const [id, row] = [...at.log.state.table('keys').rows()].find(([, { name }]) => name === 'app')!
  at.log.apply([{ type: 'api_key.changed', data: { id, name: 'mine', managed_by: 'api' } }])
  const { tenant_id } = row
  const nothing = { expires_at: null, routing_policy_id: null, rate_limits: null }
  const other = { id: 'key_1', tenant_id, name: 'app', scopes: ['inference'], managed_by: 'api', ...nothing }
  at.log.apply([{ type: 'api_key.issued', data: { ...other, digest: sha256Hex('other') } }])
  const { notes } = await at.seed(settings(2))
  expect(notes).toEqual([])
  expect(about(at)).toEqual({
    overrides: [
      ['block', `key:${id}`, '2'],
      ['cap', `key:${id}`, 2],
    ],
    budgets: [[id, 2_000_000_000]],
    rules: [[`key:${id}`, 2]],
  })
})

test('is about the key of that name where settings made none under it', async () => {
  const at = install()
  await at.seed()
  const [tenant_id] = at.log.state.table('tenants').find('slug', 'default')
  const nothing = { expires_at: null, routing_policy_id: null, rate_limits: null }
  const data = { id: 'key_1', tenant_id, name: 'app', scopes: ['inference'], managed_by: 'api', ...nothing }
  at.log.apply([{ type: 'api_key.issued', data: { ...data, digest: sha256Hex('other') } }])
  expect((await at.seed(settings(1))).notes).toEqual([])
  expect(about(at).budgets).toEqual([['key_1', 1_000_000_000]])
})
