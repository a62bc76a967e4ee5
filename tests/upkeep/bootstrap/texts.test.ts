// Secrets of keys in the settings that must not be used: secrets that stopped working earlier, and secrets that another
// key has.
import { describe, expect, test } from 'bun:test'
import type { Bootstrap } from '../../../src/domain/bootstrap.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { ADMIN, type Installation, install, rowsOf } from './installation.ts'

const INFERENCE = 'an-inference-key-of-my-own-choice'
const [FIRST, SECOND] = ['a-first-text-of-the-settings', 'a-second-text-of-the-settings']
const entry = (name: string, key_env: string, tenant = 'default') => ({
  ...{ name, key_env, tenant, scopes: ['inference' as const] },
})
const settings: Bootstrap = {
  tenants: [{ slug: 'acme', name: 'Acme' }],
  keys: [entry('ci', 'CI_KEY', 'acme')],
}
const seeded = async (env: Record<string, string>, bootstrap = settings): Promise<Installation> => {
  const at = install()
  at.env = env
  expect((await at.seed(bootstrap)).notes).toEqual([])
  return at
}
const named = (at: Installation, name: string) => rowsOf(at, 'keys').find((row) => row.name === name)
const works = (at: Installation, text: string): boolean =>
  rowsOf(at, 'keys').some(({ digest, status }) => digest === sha256Hex(text) && status === 'active')
const deleteTenant = (at: Installation, slug: string) => {
  const [id] = at.log.state.table('tenants').find('slug', slug)
  at.log.apply([{ type: 'tenant.deleted', data: { id } }])
}
/** No note holds a secret or its digest. */
const requireSecret = (notes: readonly string[], texts: readonly string[]) => {
  for (const text of texts) {
    expect(notes.join()).not.toContain(text)
    expect(notes.join()).not.toContain(sha256Hex(text))
  }
}

// docs/behaviour.md: "First start and bootstrap"
describe('a text that stopped working never works again by the settings, and a note names the entry', () => {
  const ends: [string, (at: Installation, id: string) => unknown][] = [
    ['revoked', (at, id) => at.log.apply([{ type: 'api_key.revoked', data: { id } }])],
    ['rotated away', (at, id) => at.log.apply([{ type: 'api_key.rotated', data: { id, digest: sha256Hex('other') } }])],
    ['in use until then', () => undefined],
  ]
  test.each(ends)('%s, then its tenant was deleted', async (_, end) => {
    const at = await seeded({ CI_KEY: FIRST })
    end(at, named(at, 'ci')!.id)
    deleteTenant(at, 'acme')
    const recreate = ['tenants/acme']
    const { notes } = await at.seed({ ...settings, recreate })
    expect(notes).toHaveLength(1)
    expect(notes[0]).toStartWith(
      'bootstrap.keys "ci": left out: its text was rotated away, or removed with its tenant, at ',
    )
    requireSecret(notes, [FIRST])
    expect(works(at, FIRST)).toBe(false)
    expect(rowsOf(at, 'tenants').map(({ slug }) => slug)).toContain('acme')
    at.env = { CI_KEY: SECOND }
    expect((await at.seed(settings)).notes).toEqual([])
    expect(works(at, SECOND)).toBe(true)
  })

  test('of the environment, with the variable', async () => {
    const at = install()
    await at.seed({}, { admin: ADMIN, inference: INFERENCE })
    deleteTenant(at, 'default')
    const { notes } = await at.seed({}, { admin: ADMIN, inference: INFERENCE })
    expect(notes.map((note) => note.split(':')[0])).toEqual([
      'the key "bootstrap-admin" of default (GATEWAY_BOOTSTRAP_ADMIN_KEY)',
      'the key "bootstrap-inference" of default (GATEWAY_BOOTSTRAP_INFERENCE_KEY)',
    ])
    requireSecret(notes, [ADMIN, INFERENCE])
    expect(rowsOf(at, 'keys')).toEqual([])
  })

  test('when the settings themselves changed it and change it back', async () => {
    const at = await seeded({ CI_KEY: FIRST })
    at.env = { CI_KEY: SECOND }
    await at.seed(settings)
    at.env = { CI_KEY: FIRST }
    const { notes } = await at.seed(settings)
    expect(notes).toEqual([expect.stringContaining('bootstrap.keys "ci": left out: its text was rotated away')])
    expect(works(at, FIRST)).toBe(false)
    expect(works(at, SECOND)).toBe(true)
  })

  test('that was minted, put into the settings, and rotated away', async () => {
    const at = install()
    const [admin] = (await at.seed()).minted
    const text = admin!.plaintext
    const { id } = named(at, 'bootstrap-admin')!
    at.log.apply([{ type: 'api_key.rotated', data: { id, digest: sha256Hex(SECOND) } }])
    const { notes } = await at.seed({}, { admin: text })
    expect(notes).toEqual([
      expect.stringContaining('GATEWAY_BOOTSTRAP_ADMIN_KEY): left out: its text was rotated away'),
    ])
    expect(works(at, text)).toBe(false)
  })

  test('of a key of another name that was revoked', async () => {
    const at = await seeded({ CI_KEY: FIRST })
    at.log.apply([{ type: 'api_key.revoked', data: { id: named(at, 'ci')!.id } }])
    const { notes } = await at.seed({ ...settings, keys: [entry('other', 'CI_KEY')] })
    expect(notes).toContain(
      'bootstrap.keys "other": left out: its text is that of the key "ci", which was revoked: such a text never works again; give it another one',
    )
    expect(works(at, FIRST)).toBe(false)
  })
})

describe('a text that another key has is left where it is, a note names both, and the rest is seeded', () => {
  test('two entries with one text', async () => {
    const at = install()
    at.env = { ONE: FIRST, TWO: FIRST, THREE: SECOND }
    const { notes } = await at.seed({ keys: [entry('one', 'ONE'), entry('two', 'TWO'), entry('three', 'THREE')] })
    expect(notes).toEqual([
      'bootstrap.keys "two": left out: it has the same text as the key "one" of default; give each key a text of its own',
    ])
    requireSecret(notes, [FIRST])
    expect([named(at, 'one'), named(at, 'two'), named(at, 'three')].map((row) => row?.digest)).toEqual([
      sha256Hex(FIRST),
      undefined,
      sha256Hex(SECOND),
    ])
  })

  test('both variables of the environment', async () => {
    const at = install()
    const { notes } = await at.seed({}, { admin: ADMIN, inference: ADMIN })
    expect(notes).toEqual([
      'the key "bootstrap-inference" of default (GATEWAY_BOOTSTRAP_INFERENCE_KEY): left out: it has the same text as the key "bootstrap-admin" of default (GATEWAY_BOOTSTRAP_ADMIN_KEY); give each key a text of its own',
    ])
    requireSecret(notes, [ADMIN])
    expect(named(at, 'bootstrap-admin')).toMatchObject({ digest: sha256Hex(ADMIN), scopes: ['*'] })
  })

  test('entries that swap their texts', async () => {
    const keys = { keys: [entry('one', 'ONE'), entry('two', 'TWO')] }
    const at = await seeded({ ONE: FIRST, TWO: SECOND }, keys)
    at.env = { ONE: SECOND, TWO: FIRST }
    const { notes } = await at.seed(keys)
    expect(notes).toEqual([
      'bootstrap.keys "one": left out: it has the same text as the key "two" of default; give each key a text of its own; the text that it has goes on working',
      'bootstrap.keys "two": left out: it has the same text as the key "one" of default; give each key a text of its own; the text that it has goes on working',
    ])
    requireSecret(notes, [FIRST, SECOND])
    expect(named(at, 'one')!.digest).toBe(sha256Hex(FIRST))
  })

  test('a key of the API, of another tenant', async () => {
    const at = await seeded({ CI_KEY: FIRST })
    const { notes } = await at.seed({ ...settings, keys: [entry('ci', 'CI_KEY', 'acme'), entry('mine', 'CI_KEY')] })
    expect(notes).toEqual([
      'bootstrap.keys "mine": left out: it has the same text as the key "ci" of acme; give each key a text of its own',
    ])
    const other = install()
    other.env = { CI_KEY: FIRST }
    await other.seed({})
    const [tenant_id] = other.log.state.table('tenants').find('slug', 'default')
    const nothing = { expires_at: null, routing_policy_id: null, rate_limits: null }
    const data = { id: 'key_1', tenant_id, name: 'app', scopes: ['inference'], digest: sha256Hex(FIRST), ...nothing }
    other.log.apply([{ type: 'api_key.issued', data: { ...data, managed_by: 'api' } }])
    expect((await other.seed(settings)).notes).toEqual([
      'bootstrap.keys "ci": left out: it has the same text as the key "app" of default; give each key a text of its own',
    ])
  })
})
