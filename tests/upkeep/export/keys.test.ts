// Keys in the export: every one of them comes back elsewhere, whatever the API named it, and so does what is about it.
import { expect, test } from 'bun:test'
import { type Bootstrap, checkBootstrap } from '../../../src/domain/bootstrap.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { KINDS, kindOf } from '../../../src/providers/kinds.ts'
import { bootstrapProblem } from '../../../src/upkeep/bootstrap/check.ts'
import { exportedText } from '../../../src/upkeep/export/bootstrap.ts'
import type { FoldingCommit } from '../../http/admin/world/folding-commit.ts'
import { ADMIN, type Installation, install, rowsOf } from '../bootstrap/installation.ts'
import { NOW_MS } from '../bootstrap/seeding.ts'

const kinds = { resolve: kindOf, names: [...KINDS.keys()] }
const exported = ({ state }: FoldingCommit): string => exportedText(state, NOW_MS, [])
const entriesOf = (text: string): Bootstrap => {
  const checked = checkBootstrap((Bun.YAML.parse(text) as { bootstrap: unknown }).bootstrap)
  if (!checked.ok) throw new Error(checked.error)
  expect(bootstrapProblem(checked.value, kinds)).toBeNull()
  return checked.value
}

/** Ids are those of one installation. */
const withoutIds = (entries: Bootstrap): Bootstrap => ({
  ...entries,
  keys: (entries.keys ?? []).map(({ id: _, ...entry }) => entry),
})

const issue = (at: Installation, id: string, name: string, fields: object = {}) => {
  const [tenant_id] = at.log.state.table('tenants').find('slug', 'default')
  const nothing = { expires_at: null, routing_policy_id: null, rate_limits: null }
  const data = { id, tenant_id, name, scopes: ['inference'], digest: sha256Hex(id), managed_by: 'api', ...nothing }
  at.log.apply([{ type: 'api_key.issued', data: { ...data, ...fields } }])
}
const keysOf = (at: Installation) =>
  rowsOf(at, 'keys')
    .filter(({ status }) => status === 'active')
    .map(({ name, scopes, rate_limits }) => [name, [...scopes].sort().join(), rate_limits?.rpm ?? null] as const)
    .sort()

const INFERENCE = 'an-inference-key-of-my-own-choice'
const values = { admin: ADMIN, inference: INFERENCE }

/**
 * An installation with keys of the environment and with two keys of one name, which the API made. Each key has rate
 * limits, and one has an override.
 */
const twins = async (): Promise<Installation> => {
  const at = install()
  await at.seed({}, values)
  issue(at, 'key_1', 'app', { rate_limits: { rpm: 1 } })
  issue(at, 'key_2', 'app', { rate_limits: { rpm: 2 }, scopes: ['usage:read', 'inference'] })
  issue(at, 'key_3', 'app-2', { rate_limits: { rpm: 3 } })
  const freeze = { kind: 'block', target: 'key:key_2', tenant_id: null, value: null, reason: null, expires_at: null }
  at.log.apply([{ type: 'override.written', data: { id: 'ovr_1', enabled: true, ...freeze } }])
  return at
}

test('keys of one name come back as two, the later under another name that the file tells, and what is about them too', async () => {
  const at = await twins()
  const text = exported(at.log)
  expect(text).toContain('# the key "app" of default (key_2) is named "app-3" here: another key has this name')
  expect(entriesOf(text).overrides).toEqual([{ kind: 'block', target: 'key:default/app-3' }])
  const other = install()
  expect((await other.seed(entriesOf(text), values)).notes).toEqual([])
  const renamed = keysOf(at).map(([name, scopes, rpm]) => [rpm === 2 ? 'app-3' : name, scopes, rpm] as const)
  expect(keysOf(other)).toEqual(renamed.sort())
  expect(entriesOf(exported(other.log))).toEqual(withoutIds(entriesOf(text)))
  const decided = other.log.events.length
  await other.seed(entriesOf(text), values)
  expect(other.log.events.length).toBe(decided)
})

test('keys of the environment come back with their limits, and with the text of the environment where it is given', async () => {
  const at = install()
  await at.seed({}, values)
  const inference = rowsOf(at, 'keys').find(({ digest }) => digest === sha256Hex(INFERENCE))!
  at.log.apply([{ type: 'api_key.changed', data: { id: inference.id, rate_limits: { rpm: 9 }, managed_by: 'api' } }])
  const text = exported(at.log)
  expect(text).toContain('# bootstrap-inference is the key of GATEWAY_BOOTSTRAP_INFERENCE_KEY')
  for (const [given, minted] of [
    [values, []],
    [{}, ['bootstrap-admin', 'bootstrap-inference']],
  ] as const) {
    const other = install()
    const report = await other.seed(entriesOf(text), given)
    expect(report.minted.map(({ name }) => name)).toEqual([...minted])
    expect(keysOf(other)).toEqual(keysOf(at))
  }
})

test('a key that has the name of one of the environment and opens something else gets another name', async () => {
  const at = install()
  await at.seed({}, values)
  issue(at, 'key_1', 'bootstrap-inference', { scopes: ['usage:read'] })
  const inference = rowsOf(at, 'keys').find(({ digest }) => digest === sha256Hex(INFERENCE))!
  const wide = ['inference', 'usage:read']
  at.log.apply([{ type: 'api_key.changed', data: { id: inference.id, scopes: wide, managed_by: 'api' } }])
  const text = exported(at.log)
  expect(text.match(/the key of GATEWAY_BOOTSTRAP_INFERENCE_KEY has this name, and other scopes/g)).toHaveLength(2)
  const other = install()
  await other.seed(entriesOf(text), values)
  expect(keysOf(other)).toEqual([
    ['bootstrap-admin', '*', null],
    ['bootstrap-inference', 'inference', null],
    ['bootstrap-inference-2', wide.join(), null],
    ['bootstrap-inference-3', 'usage:read', null],
  ])
})

test('an override that forces a model that is gone is left out with a note, so the file of the file is the same', async () => {
  const at = install()
  await at.seed({
    providers: [{ name: 'p', kind: 'openai', models: [{ name: 'm' }, { name: 'n', aliases: ['fast'] }] }],
    endpoints: [{ slug: 'chat' }],
    overrides: [
      { kind: 'force', target: 'endpoint:chat', value: { model: 'm' } },
      { kind: 'force', target: 'endpoint:gone-too', value: { model: 'fast' } },
    ],
  })
  const [m] = rowsOf(at, 'models')
  const [endpoint] = [...at.log.state.table('endpoints').rows()]
  at.log.apply([
    { type: 'model.deleted', data: { id: m!.id } },
    { type: 'endpoint.deleted', data: { id: endpoint![0] } },
  ])
  const text = exported(at.log)
  expect(text).toContain('# the override force of "endpoint:chat" is left out: there is no model "m" any more')
  const other = install()
  expect((await other.seed(entriesOf(text))).notes).toEqual([])
  expect(entriesOf(exported(other.log))).toEqual(entriesOf(text))
  expect(entriesOf(text).overrides).toHaveLength(1)
})

test('seeded into the installation that it is of, a file changes nothing, whatever keys are called', async () => {
  const at = await twins()
  // Known to the settings by another name than it has, which another key has by now.
  const seeded = { managed_by: 'bootstrap', seeded_name: 'mine' }
  issue(at, 'key_4', 'mine', seeded)
  at.log.apply([{ type: 'api_key.changed', data: { id: 'key_4', name: 'renamed', managed_by: 'api' } }])
  issue(at, 'key_5', 'mine')
  issue(at, 'key_6', 'bootstrap-inference', { scopes: ['usage:read'] })
  const said = { tenant_id: null, value: null, reason: null, expires_at: null, enabled: true, kind: 'block' }
  for (const id of ['key_1', 'key_5', 'key_6'])
    at.log.apply([{ type: 'override.written', data: { id: `ovr_${id}`, target: `key:${id}`, ...said } }])
  const budgets = ['key_1', 'key_2', 'key_5'].map((id) => ({ scope: { type: 'key' as const, id }, limit_usd: 1 }))
  await at.seed({ budgets }, values)
  const text = exported(at.log)
  const decided = at.log.events.length
  const { minted, notes } = await at.seed(entriesOf(text), values)
  expect({ minted, notes }).toEqual({ minted: [], notes: [] })
  expect(at.log.events.slice(decided)).toEqual([])
  expect(exported(at.log)).toBe(text)
})

test('elsewhere an entry with an id is a key of its name, with what is about it', async () => {
  const text = exported((await twins()).log)
  expect(entriesOf(text).keys?.find(({ name }) => name === 'app-3')?.id).toBe('key_2')
  expect(text).toContain('# A key with an id is that one in the installation that has it')
  const other = install()
  await other.seed(entriesOf(text), values)
  const [about] = [...other.log.state.table('overrides').rows()].map(([, { target }]) => target)
  expect(other.log.state.table('keys').get(about!.slice('key:'.length))).toMatchObject({ name: 'app-3' })
})

test('what is about a key whose name ends in a blank is about it elsewhere too, not about one without', async () => {
  const at = install()
  await at.seed({}, values)
  issue(at, 'key_1', 'app')
  issue(at, 'key_2', 'app ')
  const [tenant_id] = at.log.state.table('tenants').find('slug', 'default')
  const of = (id: string) => ({ id: `rule_${id}`, tenant_id, name: id, scopes: [`key:${id}`], managed_by: 'api' })
  const rule = { ttl_seconds: 1, enabled: true, mode: 'exact', similarity_threshold: null }
  const block = { kind: 'block', tenant_id, value: null, reason: null, expires_at: null, enabled: true }
  for (const id of ['key_1', 'key_2'])
    at.log.apply([
      { type: 'cache_rule.created', data: { ...of(id), ...rule } },
      { type: 'override.written', data: { id: `ovr_${id}`, target: `key:${id}`, ...block } },
    ])
  const other = install()
  expect((await other.seed(entriesOf(exported(at.log)), values)).notes).toEqual([])
  const called = (scope: string) => other.log.state.table('keys').get(scope.slice('key:'.length))?.name
  expect(
    Object.fromEntries(rowsOf(other, 'cache_rules').map(({ name, scopes }) => [name, scopes.map(called)])),
  ).toEqual({
    key_1: ['app'],
    key_2: ['app '],
  })
  const blocked = [...other.log.state.table('overrides').rows()].map(([, { target }]) => called(target))
  expect(blocked.sort()).toEqual(['app', 'app '])
  expect(exported(other.log).replaceAll(/#.*\n/g, '')).toBe(exported(at.log).replaceAll(/#.*\n/g, ''))
})
