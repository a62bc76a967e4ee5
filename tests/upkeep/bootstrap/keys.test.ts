// Seeded keys that the API has edited, renamed or revoked since: the API owns them, and only a changed secret in the
// settings affects them.
import { describe, expect, test } from 'bun:test'
import type { Bootstrap } from '../../../src/domain/bootstrap.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { ADMIN, type Installation, install, rowsOf } from './installation.ts'

const INFERENCE = 'an-inference-key-of-my-own-choice'
const settings: Bootstrap = {
  keys: [
    { name: 'ci', scopes: ['inference', 'usage:read', 'providers:admin'] },
    { name: 'ci2', scopes: ['inference'] },
  ],
}
const named = (at: Installation, name: string) => rowsOf(at, 'keys').filter((row) => row.name === name)
const edit = (at: Installation, id: string, fields: object) =>
  at.log.apply([{ type: 'api_key.changed', data: { id, ...fields, managed_by: 'api' } }])
const issuedByApi = (at: Installation, id: string, name: string) => {
  const [tenant_id] = at.log.state.table('tenants').find('slug', 'default')
  const nothing = { expires_at: null, routing_policy_id: null, rate_limits: null }
  const data = { id, tenant_id, name, scopes: ['inference'], digest: sha256Hex(id), managed_by: 'api', ...nothing }
  at.log.apply([{ type: 'api_key.issued', data }])
}

describe('a key of bootstrap.keys', () => {
  test('that the API edited, edited and revoked, or renamed is not issued again', async () => {
    const at = install()
    await at.seed({ keys: [...settings.keys!, { name: 'ci3', scopes: ['inference'] }] })
    const [ci, ci2, ci3] = ['ci', 'ci2', 'ci3'].map((name) => named(at, name)[0]!.id)
    edit(at, ci!, { scopes: ['inference'] })
    edit(at, ci2!, { rate_limits: { rpm: 1 } })
    at.log.apply([{ type: 'api_key.revoked', data: { id: ci2! } }])
    edit(at, ci3!, { rate_limits: { rpm: 1 } })
    edit(at, ci3!, { name: 'renamed' })
    const decided = at.log.events.length
    const again = await at.seed({ keys: [...settings.keys!, { name: 'ci3', scopes: ['inference'] }] })
    const edited = (id: string) => `what is said here is not applied, the API has edited the key (${id}) since`
    expect(again).toEqual({
      minted: [],
      working: [],
      notes: [`bootstrap.keys "ci": scopes: ${edited(ci!)}`, `bootstrap.keys "ci3": rate_limits: ${edited(ci3!)}`],
    })
    expect(at.log.events.length).toBe(decided)
    expect(named(at, 'ci')).toMatchObject([{ scopes: ['inference'], managed_by: 'api' }])
  })

  test('is not issued beside one that the API made under its name; of a revoked one the start tells', async () => {
    const at = install()
    await at.seed()
    issuedByApi(at, 'key_1', 'ci')
    expect(await at.seed({ keys: [settings.keys![0]!] })).toEqual({ minted: [], working: [], notes: [] })
    at.log.apply([{ type: 'api_key.revoked', data: { id: 'key_1' } }])
    expect(await at.seed({ keys: [settings.keys![0]!] })).toEqual({
      minted: [],
      working: [],
      notes: ['bootstrap.keys "ci": it is not made: a key of this name was revoked by the API'],
    })
  })

  test('of a log of before keys told what they were seeded as is found by its name', async () => {
    const at = install()
    await at.seed()
    issuedByApi(at, 'key_1', 'ci')
    issuedByApi(at, 'key_2', 'ci2')
    for (const id of ['key_1', 'key_2']) edit(at, id, { rate_limits: { rpm: 1 } })
    expect((await at.seed(settings)).minted).toEqual([])
  })
})

describe('a key that an earlier build seeded, whose events do not say its name in the settings, and that the API renamed', () => {
  const before = (at: Installation, id: string, fields: object) => {
    const [tenant_id] = at.log.state.table('tenants').find('slug', 'default')
    const nothing = { expires_at: null, routing_policy_id: null, rate_limits: null }
    const data = { id, tenant_id, name: 'ci', scopes: ['inference'], managed_by: 'bootstrap', ...nothing, ...fields }
    at.log.apply([{ type: 'api_key.issued', data }])
  }
  const listed: Bootstrap = { keys: [{ name: 'ci', scopes: ['inference'], key_env: 'CI_KEY' }] }
  const [old, next] = ['a-key-of-the-settings-of-before', 'a-key-of-the-settings-of-today'].map(sha256Hex)

  test('is rotated by a changed value, and no key of its new name is', async () => {
    const at = install()
    await at.seed({})
    before(at, 'key_0', { digest: old, seeded_digest: old })
    edit(at, 'key_0', { name: 'mine' })
    issuedByApi(at, 'key_1', 'ci')
    at.env = { CI_KEY: 'a-key-of-the-settings-of-today' }
    await at.seed(listed)
    expect(at.log.state.table('keys').get('key_0')).toMatchObject({ name: 'mine', digest: next, status: 'active' })
    expect(at.log.state.table('keys').get('key_1')).toMatchObject({ digest: sha256Hex('key_1') })
    expect(rowsOf(at, 'keys').map(({ digest }) => digest)).not.toContain(old)
    expect(named(at, 'ci')).toHaveLength(1)
  })

  test('is not minted again', async () => {
    const at = install()
    await at.seed({})
    before(at, 'key_0', { digest: old })
    edit(at, 'key_0', { name: 'mine', managed_by: 'api' })
    expect((await at.seed({ keys: [{ name: 'ci', scopes: ['inference'] }] })).minted).toEqual([])
  })

  test('is known by the name under which settings gave it its secret, when the API had made it', async () => {
    const at = install()
    await at.seed({})
    issuedByApi(at, 'key_1', 'ci')
    at.log.apply([{ type: 'api_key.rotated', data: { id: 'key_1', digest: old, seeded_digest: old } }])
    edit(at, 'key_1', { name: 'mine' })
    at.env = { CI_KEY: 'a-key-of-the-settings-of-today' }
    await at.seed(listed)
    expect(at.log.state.table('keys').get('key_1')).toMatchObject({ digest: next })
    expect(named(at, 'ci')).toEqual([])
  })
})

describe('a changed value of the environment', () => {
  test.each([['admin'], ['inference']] as const)(
    'retires the old %s key, whatever the API has set of it since',
    async (which) => {
      const at = install()
      const values = { admin: ADMIN, inference: INFERENCE }
      await at.seed({}, values)
      const { id } = rowsOf(at, 'keys').find(({ digest }) => digest === sha256Hex(values[which]))!
      edit(at, id, { rate_limits: { rpm: 7 } })
      edit(at, id, { name: 'mine', scopes: ['keys:admin'] })
      await at.seed({}, { ...values, [which]: `${values[which]}-next` })
      const digests = rowsOf(at, 'keys').map(({ digest }) => digest)
      expect(digests).not.toContain(sha256Hex(values[which]))
      expect(digests).toHaveLength(2)
      expect(at.log.state.table('keys').get(id)).toMatchObject({
        ...{
          digest: sha256Hex(`${values[which]}-next`),
          rate_limits: { rpm: 7 },
          name: 'mine',
          scopes: ['keys:admin'],
        },
        managed_by: 'api',
      })
    },
  )

  test('is a key of its own where the one before has expired, and that one never works again', async () => {
    const at = install()
    await at.seed({}, { admin: ADMIN, inference: INFERENCE })
    const { id } = rowsOf(at, 'keys').find(({ digest }) => digest === sha256Hex(ADMIN))!
    edit(at, id, { expires_at: '2026-11-19T00:00:00.000Z' })
    const values = { admin: `${ADMIN}-next`, inference: INFERENCE }
    await at.seed({}, values)
    expect(at.log.state.table('keys').get(id)).toMatchObject({ status: 'revoked' })
    const made = rowsOf(at, 'keys').filter(({ digest }) => digest === sha256Hex(values.admin))
    expect(made).toMatchObject([{ status: 'active', scopes: ['*'], expires_at: null }])
    const decided = at.log.events.length
    await at.seed({}, values)
    expect(at.log.events.length).toBe(decided)
  })

  test('retires every secret that the environment gave before, where an earlier version made a second key', async () => {
    const at = install()
    await at.seed({}, { admin: ADMIN, inference: INFERENCE })
    const first = rowsOf(at, 'keys').find(({ digest }) => digest === sha256Hex(ADMIN))!
    edit(at, first.id, { rate_limits: { rpm: 7 } })
    const { id: _, status, revoked_at, created_at, updated_at, revision, ...row } = first
    const digest = sha256Hex(`${ADMIN}-second`)
    at.log.apply([{ type: 'api_key.issued', data: { ...row, id: 'key_z', digest, seeded_digest: digest } }])
    await at.seed({}, { admin: `${ADMIN}-third`, inference: INFERENCE })
    const active = rowsOf(at, 'keys').filter((key) => key.status === 'active' && key.scopes.includes('*'))
    expect(active.map((key) => key.digest)).toEqual([sha256Hex(`${ADMIN}-third`)])
  })
})
