// What `bootstrap.keys` says of a key that it made holds at the next start, and what the API said since holds over it.
import { describe, expect, test } from 'bun:test'
import type { Bootstrap, BootstrapKey } from '../../../src/domain/bootstrap.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { type Installation, install, rowsOf } from './installation.ts'

const FIRST = 'a-first-text-of-the-settings'
const settings = (key: Partial<BootstrapKey>): Bootstrap => ({
  tenants: [{ slug: 'acme', name: 'Acme' }],
  policies: [{ name: 'own', tenant: 'acme' }, { name: 'for-all' }],
  keys: [{ name: 'app', tenant: 'acme', scopes: ['inference'], key_env: 'APP_KEY', ...key }],
})
const MANY: Partial<BootstrapKey> = {
  scopes: ['inference', 'usage:read', 'providers:admin'],
  expires_at: '2027-01-01T00:00:00Z',
  rate_limits: { rpm: 9 },
  routing_policy: 'own',
}
const seeded = async (key: Partial<BootstrapKey>): Promise<Installation> => {
  const at = install()
  at.env = { APP_KEY: FIRST }
  await at.seed(settings(key))
  return at
}
const app = (at: Installation) => rowsOf(at, 'keys').find(({ seeded_name }) => seeded_name === 'app')!
const policyId = (at: Installation, name: string) => rowsOf(at, 'policies').find((row) => row.name === name)!.id
/** What a start with these settings decides and says. */
const next = async (at: Installation, bootstrap: Bootstrap) => {
  const before = at.log.events.length
  const { notes, minted } = await at.seed(bootstrap)
  return { events: at.log.events.slice(before), notes, minted }
}
const edit = (at: Installation, fields: object) =>
  at.log.apply([{ type: 'api_key.changed', data: { id: app(at).id, ...fields, managed_by: 'api' } }])

const changes: [string, Partial<BootstrapKey>, Partial<BootstrapKey>, (at: Installation) => object][] = [
  ['scopes lowered', MANY, { ...MANY, scopes: ['inference'] }, () => ({ scopes: ['inference'] })],
  ['an end', {}, { expires_at: '2026-12-01T02:00:00+02:00' }, () => ({ expires_at: '2026-12-01T00:00:00.000Z' })],
  ['a later end', { expires_at: '2026-11-01T00:00:00Z' }, MANY, () => ({ expires_at: '2027-01-01T00:00:00.000Z' })],
  ['limits', {}, { rate_limits: { rpm: 1 } }, () => ({ rate_limits: { rpm: 1 } })],
  ['a policy', {}, { routing_policy: 'for-all' }, (at) => ({ routing_policy_id: policyId(at, 'for-all') })],
  [
    'nothing any more',
    MANY,
    {},
    () => ({ scopes: ['inference'], expires_at: null, rate_limits: null, routing_policy_id: null }),
  ],
]

describe('of a key that nobody else has edited the settings apply', () => {
  test.each(changes)('%s', async (_, before, after, expected) => {
    const at = await seeded(before)
    const { id } = app(at)
    const { events, notes } = await next(at, settings(after))
    expect(notes).toEqual([])
    expect(events.map(({ type }) => type)).toEqual(['api_key.changed'])
    expect(app(at)).toMatchObject({ id, ...expected(at), managed_by: 'bootstrap', digest: sha256Hex(FIRST) })
    expect(await next(at, settings(after))).toEqual({ events: [], notes: [], minted: [] })
  })

  test('the same of a minted one', async () => {
    const minted = (key: Partial<BootstrapKey>): Bootstrap => ({
      keys: [{ name: 'app', scopes: ['inference'], ...key }],
    })
    const at = install()
    await at.seed(minted({ scopes: ['keys:admin'] }))
    expect((await next(at, minted({}))).events).toHaveLength(1)
    expect(app(at).scopes).toEqual(['inference'])
  })

  test('its hours count from when it was made', async () => {
    const at = await seeded({ expires_in_hours: 24 })
    const { expires_at } = app(at)
    expect((await next(at, settings({ expires_in_hours: 48 }))).events).toEqual([])
    expect(app(at).expires_at).toBe(expires_at)
    const endless = await seeded({})
    expect((await next(endless, settings({ expires_in_hours: 1 }))).notes).toEqual([
      'bootstrap.keys "app": it was made without an end, and expires_in_hours counts from then: say expires_at',
    ])
  })

  test('scopes in another order are the same', async () => {
    const at = await seeded(MANY)
    expect((await next(at, settings({ ...MANY, scopes: MANY.scopes!.toReversed() }))).events).toEqual([])
  })

  test('where it was rotated by the API its new secret stays, and revoked it stays as it is', async () => {
    const at = await seeded(MANY)
    at.log.apply([{ type: 'api_key.rotated', data: { id: app(at).id, digest: sha256Hex('other') } }])
    await at.seed(settings({}))
    expect(app(at)).toMatchObject({ scopes: ['inference'], digest: sha256Hex('other') })
    at.log.apply([{ type: 'api_key.revoked', data: { id: app(at).id } }])
    const notes = [expect.stringContaining('the text of APP_KEY is answered with 401: the API rotated it away')]
    expect(await next(at, settings(MANY))).toEqual({ events: [], notes, minted: [] })
  })

  test('what the settings change, rotated secret included, is one decision', async () => {
    const at = await seeded(MANY)
    at.env = { APP_KEY: 'a-second-text-of-the-settings' }
    const { events } = await next(at, settings({}))
    expect(events.map(({ type }) => type)).toEqual(['api_key.rotated', 'api_key.changed'])
  })
})

test('of a key that the API edited every difference is told and none applied', async () => {
  const at = await seeded({})
  edit(at, { rate_limits: { rpm: 2 } })
  const before = app(at)
  const { events, notes } = await next(at, settings(MANY))
  expect(events).toEqual([])
  expect(app(at)).toEqual(before)
  const why = `the API has edited the key (${before.id}) since`
  expect(notes).toEqual(
    ['scopes', 'expires_at', 'rate_limits', 'routing_policy'].map(
      (member) => `bootstrap.keys "app": ${member}: what is said here is not applied, ${why}`,
    ),
  )
  expect((await next(at, settings({ rate_limits: { rpm: 2 } }))).notes).toEqual([])
})

test('the scopes of a key of the environment are not what an entry says', async () => {
  const usual = { name: 'bootstrap-admin', scopes: ['*' as const], rate_limits: { rpm: 3 } }
  const at = install()
  await at.seed()
  const { id } = rowsOf(at, 'keys').find(({ name }) => name === usual.name)!
  at.log.apply([{ type: 'api_key.changed', data: { id, scopes: ['inference'] } }])
  await at.seed({ keys: [usual] })
  expect(at.log.state.table('keys').get(id)).toMatchObject({ scopes: ['inference'], rate_limits: { rpm: 3 } })
})

describe('a start says of a key', () => {
  test('that its end is past', async () => {
    const at = await seeded({})
    const { notes } = await next(at, settings({ expires_at: '2026-11-19T00:00:00Z' }))
    expect(notes).toEqual(['bootstrap.keys "app": its expires_at is past: the key does not work'])
    expect(app(at).expires_at).toBe('2026-11-19T00:00:00.000Z')
  })

  test('that the text of before works where the new one is refused, and applies the rest', async () => {
    const at = await seeded(MANY)
    at.env = { APP_KEY: 'a-second-text-of-the-settings' }
    await at.seed(settings(MANY))
    at.env = { APP_KEY: FIRST }
    const { notes } = await next(at, settings({}))
    expect(notes).toEqual([expect.stringMatching(/give it another one; the text that it has goes on working$/)])
    expect(app(at)).toMatchObject({ scopes: ['inference'], digest: sha256Hex('a-second-text-of-the-settings') })
  })

  test('that its policy is not one of its tenant, and leaves it as it is', async () => {
    const at = await seeded(MANY)
    const before = app(at)
    const { events, notes } = await next(at, {
      ...settings(MANY),
      keys: [{ ...settings(MANY).keys![0]!, tenant: 'acme', routing_policy: 'own', routing_policy_owner: 'global' }],
    })
    expect(events).toEqual([])
    expect(app(at)).toEqual(before)
    expect(notes).toEqual(['bootstrap.keys "app": no policy that its tenant can use is named "own"'])
  })

  test('that its policy is not one of its tenant, and applies the rest', async () => {
    const at = await seeded(MANY)
    const [listed] = settings(MANY).keys!
    const unusable = { tenant: 'acme', routing_policy: 'own', routing_policy_owner: 'global' as const }
    const { notes } = await next(at, { ...settings(MANY), keys: [{ ...listed!, ...unusable, scopes: ['usage:read'] }] })
    expect(app(at).scopes).toEqual(['usage:read'])
    expect(notes).toEqual(['bootstrap.keys "app": no policy that its tenant can use is named "own"'])
  })
})

describe('a key that has ended does not work again', () => {
  const SECOND = 'a-second-text-of-the-settings'
  const ROTATED = sha256Hex('a secret of the API')
  const keysOf = (at: Installation) => rowsOf(at, 'keys').filter(({ seeded_name }) => seeded_name === 'app')
  const ended = async (): Promise<Installation> => {
    const at = await seeded({ expires_at: '2026-11-01T00:00:00Z' })
    at.log.apply([{ type: 'api_key.rotated', data: { id: app(at).id, digest: ROTATED } }])
    return at
  }

  test.each<[string, Partial<BootstrapKey>]>([
    ['no end', {}],
    ['a later end', { expires_at: '2027-01-01T00:00:00Z' }],
  ])('by %s that comes with a new text: the new key has it', async (_, key) => {
    const at = await ended()
    at.env = { APP_KEY: SECOND }
    for (let start = 0; start < 2; start++) {
      await at.seed(settings(key))
      const end = key.expires_at === undefined ? null : '2027-01-01T00:00:00.000Z'
      expect(keysOf(at)).toMatchObject([
        { digest: ROTATED, expires_at: '2026-11-01T00:00:00.000Z' },
        { digest: sha256Hex(SECOND), expires_at: end },
      ])
    }
  })

  test('by an entry that tells it by its id', async () => {
    const at = await ended()
    at.env = { APP_KEY: SECOND }
    await at.seed(settings({ id: app(at).id }))
    expect(keysOf(at).find(({ digest }) => digest === ROTATED)).toMatchObject({
      expires_at: '2026-11-01T00:00:00.000Z',
    })
  })

  test.each<[string, Partial<BootstrapKey>]>([
    ['no end', {}],
    ['a later end', { expires_at: '2027-01-01T00:00:00Z' }],
  ])('by %s, where its text is not the one that the environment gives: the API has rotated it', async (_, key) => {
    const at = await ended()
    for (let start = 0; start < 2; start++) {
      const { events, notes } = await next(at, settings(key))
      expect(events).toEqual([])
      expect(notes).toEqual([
        'bootstrap.keys "app": its end (2026-11-01T00:00:00.000Z) is past, and the text that APP_KEY gives is no longer its own: it stays ended; give it a new text',
      ])
      expect(keysOf(at)).toMatchObject([{ digest: ROTATED, expires_at: '2026-11-01T00:00:00.000Z' }])
    }
  })

  test.each<Partial<BootstrapKey>>([{}, { expires_at: '2027-01-01T00:00:00Z' }])(
    'by %j, where it was minted: the settings do not know its text',
    async (key) => {
      const minted = (more: Partial<BootstrapKey>): Bootstrap => ({
        keys: [{ name: 'app', scopes: ['inference'], ...more }],
      })
      const at = install()
      await at.seed(minted({ expires_at: '2026-11-01T00:00:00Z' }))
      at.log.apply([{ type: 'api_key.rotated', data: { id: app(at).id, digest: ROTATED } }])
      const { events, notes } = await next(at, minted(key))
      expect(events).toEqual([])
      expect(notes).toEqual([
        'bootstrap.keys "app": its end (2026-11-01T00:00:00.000Z) is past, and its text is not one that the settings give: it stays ended; prolong it by the API, or give the entry another name',
      ])
    },
  )

  test('after a wait for the log in which its end came', async () => {
    const at = install()
    const minted = (end: string): Bootstrap => ({ keys: [{ name: 'app', scopes: ['inference'], expires_at: end }] })
    await at.seed(minted('2026-11-20T01:00:00Z'))
    const seed = at.open(minted('2027-01-01T00:00:00Z'))
    at.nowMs += 2 * 3_600_000
    await seed()
    expect(app(at).expires_at).toBe('2026-11-20T01:00:00.000Z')
  })

  test('by a text that is refused', async () => {
    const at = await ended()
    at.env = { APP_KEY: SECOND }
    const other = { name: 'other', tenant: 'acme', scopes: ['inference' as const], key_env: 'APP_KEY' }
    const { notes } = await next(at, { ...settings({}), keys: [other, ...settings({}).keys!] })
    expect(notes).toEqual([expect.stringContaining('it has the same text as the key "other"')])
    expect(keysOf(at)).toMatchObject([{ digest: ROTATED, expires_at: '2026-11-01T00:00:00.000Z' }])
  })
})

test('of a key that the API prolonged nobody says that it does not work', async () => {
  const past = { expires_at: '2026-11-19T00:00:00Z' }
  const at = await seeded(past)
  edit(at, { expires_at: '2027-11-01T00:00:00.000Z' })
  const { notes } = await next(at, settings(past))
  expect(notes).toEqual([expect.stringContaining('expires_at: what is said here is not applied')])
})
