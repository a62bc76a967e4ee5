// What stands no longer in the settings stays, and every start says so.
import { expect, test } from 'bun:test'
import type { Bootstrap } from '../../../src/domain/bootstrap.ts'
import { decideOverride } from '../../../src/domain/steering/override.ts'
import { HISTORY_RETAINED, inForce, SWEPT_EVERY } from '../../../src/domain/steering/override-row.ts'
import { foldingCommit } from '../../http/admin/world/folding-commit.ts'
import { NOW_MS, seedInto } from './seeding.ts'

const settings: Bootstrap = {
  tenants: [
    { slug: 'acme', name: 'Acme' },
    { slug: 'other', name: 'Other' },
  ],
  policies: [
    { name: 'own', tenant: 'acme' },
    { name: 'own', tenant: 'other' },
  ],
  keys: [
    { name: 'app', tenant: 'acme', scopes: ['inference'] },
    { name: 'app', tenant: 'other', scopes: ['inference'] },
  ],
  providers: [
    { name: 'r', kind: 'openai', models: [{ name: 'm' }, { name: 'n' }] },
    { name: 's', kind: 'openai', models: [{ name: 'm' }] },
  ],
  models: [{ provider: 'r', name: 'o' }],
  endpoints: [{ slug: 'chat', tenant: 'acme' }],
  overrides: [
    { kind: 'kill', target: 'provider:r' },
    { kind: 'block', target: 'key:app', tenant: 'acme' },
    { kind: 'block', target: 'model:n', expires_at: '2026-11-21T00:00:00Z' },
  ],
}
const said = (notes: readonly string[]) => notes.map((note) => note.replace(/\b(key|ovr)_[\w-]+/g, '$1')).toSorted()

test('of each section by itself', async () => {
  const log = foldingCommit(() => NOW_MS)
  expect((await seedInto(log, settings)).notes).toEqual([])
  expect((await seedInto(log, settings)).notes).toEqual([])
  const rows = log.events.length
  const less: Bootstrap = {
    tenants: [settings.tenants![1]!],
    policies: [settings.policies![1]!],
    keys: [settings.keys![1]!],
    providers: [{ name: 'r', kind: 'openai', models: [{ name: 'm' }] }],
  }
  const { notes } = await seedInto(log, less)
  expect(said(notes)).toEqual([
    'the endpoint scope "chat" is no longer in bootstrap.endpoints; it stays until it is deleted',
    'the key "app" (key) is no longer in bootstrap.keys; it works until it is revoked',
    'the model "n" of "r" is no longer in bootstrap.models; it stays until it is deleted',
    'the model "o" of "r" is no longer in bootstrap.models; it stays until it is deleted',
    'the override ovr (block key:key) is no longer in bootstrap.overrides; it stays until it is taken back',
    'the override ovr (block model:n) is no longer in bootstrap.overrides; it stays until it is taken back',
    expect.stringMatching(/^the override ovr \(kill provider:prov_\S+\) is no longer in bootstrap.overrides;/),
    'the policy "own" is no longer in bootstrap.policies; it stays until it is deleted',
    'the provider "s" is no longer in bootstrap.providers; it stays until it is deleted',
    'the tenant "acme" is no longer in bootstrap.tenants; it stays until it is deleted',
  ])
  expect(log.events).toHaveLength(rows)
})

test('not of what is over, nor of what belongs to the API since', async () => {
  const log = foldingCommit(() => NOW_MS)
  await seedInto(log, settings)
  for (const [id] of log.state.table('keys').rows()) log.apply([{ type: 'api_key.revoked', data: { id } }])
  for (const [id, { name }] of log.state.table('models').rows())
    if (name !== 'm') log.apply([{ type: 'model.changed', data: { id, priority: 9, managed_by: 'api' } }])
  const { keys: _, models: __, ...rest } = settings
  const providers = [{ ...settings.providers![0]!, models: [{ name: 'm' }] }, settings.providers![1]!]
  const overrides = settings.overrides!.filter(({ target }) => !target!.startsWith('key:'))
  const { notes } = await seedInto(log, { ...rest, providers, overrides })
  expect(said(notes)).toEqual([
    'the override ovr (block key:key) is no longer in bootstrap.overrides; it stays until it is taken back',
  ])
})

test('an override that somebody took back stays so over starts, however many others were written since', async () => {
  const log = foldingCommit(() => NOW_MS)
  const settings: Bootstrap = { overrides: [{ kind: 'block', target: 'model:m' }] }
  await seedInto(log, settings)
  const actor = { type: 'key', id: 'key_1' } as const
  const write = (target: string, enabled: boolean, id: string) =>
    log.commit({
      actor,
      decide: (state) =>
        decideOverride(state, {
          ...{ do: 'write', id, kind: 'block', target, tenant_id: null, value: null, enabled },
          ...{ reason: null, expires_at: null, writer_tenant_id: null, nowMs: NOW_MS },
        }),
    })
  await write('model:m', false, 'ovr_lifted')
  for (let i = 0; i <= HISTORY_RETAINED + 2 * SWEPT_EVERY; i++) await write('model:other', i % 2 === 0, `ovr_${i}`)
  expect((await seedInto(log, settings)).notes).toEqual([])
  expect(inForce(log.state, 'block', 'model:m', null, NOW_MS)).toBeNull()
  expect(inForce(log.state, 'block', 'model:other', null, NOW_MS)).not.toBeNull()
})
