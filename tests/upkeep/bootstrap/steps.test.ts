import { describe, expect, test } from 'bun:test'
import type { Bootstrap } from '../../../src/domain/bootstrap.ts'
import { DECISION_LIMITS } from '../../../src/domain/kernel/decision.ts'
import { type FoldingCommit, foldingCommit } from '../../http/admin/world/folding-commit.ts'
import { NOW_MS, seedInto } from './seeding.ts'

/** A log that also says what each decision held. */
const counting = (): { log: FoldingCommit; decisions: number[] } => {
  const decisions: number[] = []
  const inner = foldingCommit(() => NOW_MS)
  const log: FoldingCommit = {
    ...inner,
    async commit(request) {
      const before = inner.events.length
      const result = await inner.commit(request)
      if (inner.events.length > before) decisions.push(inner.events.length - before)
      return result
    },
  }
  return { log, decisions }
}

const settings: Bootstrap = {
  tenants: [{ slug: 'acme', name: 'Acme' }],
  policies: [{ name: 'own', tenant: 'acme' }],
  keys: [{ name: 'app', tenant: 'acme', scopes: ['inference'], routing_policy: 'own' }],
  providers: [{ name: 'r', kind: 'openai', models: [{ name: 'm' }] }],
  endpoints: [{ slug: 'chat', tenant: 'acme', overrides: { forced_model: 'm' } }],
  overrides: [{ kind: 'kill', target: 'provider:r' }],
  budgets: [{ tenant: 'acme', scope: { type: 'endpoint', id: 'chat' }, limit_usd: 1 }],
}

describe('a start', () => {
  test('takes the first of two entries that name one thing in two ways, says so, and is none the next time', async () => {
    const { log, decisions } = counting()
    const two: Bootstrap = {
      providers: [{ name: 'r', kind: 'openai', models: [{ name: 'm' }] }],
      keys: [{ name: 'app', scopes: ['inference'] }],
    }
    await seedInto(log, two)
    const [provider] = log.state.table('providers').find('name', 'r')
    const [key] = [...log.state.table('keys').rows()].find(([, row]) => row.name === 'app')!
    const quarrelling: Bootstrap = {
      ...two,
      overrides: [
        { kind: 'block', target: 'key:app', reason: 'one' },
        { kind: 'block', target: `key:${key}`, reason: 'other' },
      ],
      budgets: [
        { scope: { type: 'provider', id: 'r' }, limit_usd: 1 },
        { scope: { type: 'provider', id: provider! }, limit_usd: 2 },
      ],
    }
    const before = decisions.length
    const { notes } = await seedInto(log, quarrelling)
    expect(notes.filter((note) => note.includes('is about the same'))).toHaveLength(2)
    expect(decisions).toHaveLength(before + 1)
    for (let start = 0; start < 2; start++) {
      expect((await seedInto(log, quarrelling)).notes.length).toBeGreaterThan(0)
      expect(decisions).toHaveLength(before + 1)
    }
    expect([...log.state.table('budgets').rows()].map(([, row]) => row.limit_nano_usd)).toEqual([1_000_000_000])
  })

  test('is one decision, whatever names what, and the next one is none', async () => {
    const { log, decisions } = counting()
    expect((await seedInto(log, settings)).notes).toEqual([])
    expect(decisions).toHaveLength(1)
    await seedInto(log, settings)
    expect(decisions).toHaveLength(1)
    await seedInto(log, {
      ...settings,
      tenants: [{ slug: 'acme', name: 'Acme Ltd' }],
      providers: [{ name: 'r', kind: 'openai', weight: 3, models: [{ name: 'm', priority: 1 }, { name: 'n' }] }],
    })
    expect(decisions).toHaveLength(2)
    expect(decisions[1]).toBe(4)
  })

  test('is one decision too where entries wait for the words of others, and the next one is none', async () => {
    const { log, decisions } = counting()
    const scopes = (shift: number): Bootstrap => ({
      providers: [{ name: 'r', kind: 'sandbox', models: [{ name: 'm' }] }],
      endpoints: [1, 2, 3, 4, 5, 6, 7].map((i) => ({ slug: `s${i}`, aliases: [`w${i + shift}`] })),
    })
    await seedInto(log, scopes(0))
    for (let start = 0; start < 2; start++) {
      expect((await seedInto(log, scopes(1))).notes).toEqual([])
      expect(decisions).toHaveLength(2)
    }
    const rows = [...log.state.table('endpoints').rows()].map(([, { slug, aliases }]) => [slug, ...aliases])
    expect(rows).toEqual([1, 2, 3, 4, 5, 6, 7].map((i) => [`s${i}`, `w${i + 1}`]))
  })

  test('tells of tiers that nothing says any more', async () => {
    const { log } = counting()
    const tier = { above_prompt_tokens: 9, input_cost_per_million: 5, output_cost_per_million: 5 }
    const model = (more: object): Bootstrap => ({
      providers: [{ name: 'r', kind: 'sandbox', models: [{ name: 'm', ...more }] }],
    })
    await seedInto(log, model({ price_tiers: [{ ...tier, cached_input_cost_per_million: null }] }))
    expect((await seedInto(log, model({}))).notes).toEqual([expect.stringContaining('"m" of "r": price_tiers: what')])
  })

  test('of the first installation is one decision too, sandbox and keys and all', async () => {
    const { log, decisions } = counting()
    expect((await seedInto(log, {})).minted).toHaveLength(2)
    expect(decisions).toEqual([5])
  })

  test('is several decisions only when one has no room for all of it, by bytes or by number', async () => {
    const { log, decisions } = counting()
    const regions = Array.from({ length: 20 }, (_, i) => `a-region-with-a-long-name-${i}`)
    const policies = Array.from({ length: 200 }, (_, i) => ({ name: `p${i}`, regions }))
    await seedInto(log, { policies })
    expect(log.state.table('policies').size).toBe(200)
    const bytes = Buffer.byteLength(JSON.stringify(log.events))
    expect(decisions.length).toBeGreaterThan(1)
    expect(decisions.length).toBeLessThanOrEqual(Math.ceil(bytes / (DECISION_LIMITS.bytes - 4_096)))

    const many = counting()
    const tenants = Array.from({ length: 1_500 }, (_, i) => ({ slug: `t${i}`, name: 't' }))
    await seedInto(many.log, { tenants })
    expect(many.log.state.table('tenants').size).toBe(1_501)
    for (const events of many.decisions) expect(events).toBeLessThanOrEqual(DECISION_LIMITS.events)
  })
})

describe('endpoint scopes and overrides', () => {
  test('follow the settings until somebody else writes them', async () => {
    const { log } = counting()
    await seedInto(log, settings)
    const endpoint = () => [...log.state.table('endpoints').rows()][0]![1]
    const standing = () =>
      [...log.state.table('overrides').rows()].map(([, row]) => row).filter(({ superseded }) => !superseded)
    await seedInto(log, {
      ...settings,
      endpoints: [{ slug: 'chat', tenant: 'acme', name: 'Chat' }],
      overrides: [{ kind: 'kill', target: 'r', reason: 'again' }],
    })
    expect(endpoint()).toMatchObject({ name: 'Chat', overrides: { forced_model: null }, managed_by: 'bootstrap' })
    expect(standing()).toMatchObject([{ reason: 'again', enabled: true }])

    const { target } = standing()[0]!
    const revived = { id: 'ovr_x', kind: 'kill', target, tenant_id: null, value: null, enabled: false, reason: null }
    log.apply([
      { type: 'endpoint.changed', data: { id: endpoint().id, name: 'Mine', managed_by: 'api' } },
      { type: 'override.written', data: { ...revived, expires_at: null } },
    ])
    expect((await seedInto(log, settings)).notes).toEqual([])
    expect(endpoint()).toMatchObject({ name: 'Mine', managed_by: 'api' })
    expect(standing()).toMatchObject([{ id: 'ovr_x', enabled: false }])
  })

  test('what is wrong with one is said and stops no other; what has expired is not written', async () => {
    const { log } = counting()
    const { notes } = await seedInto(log, {
      endpoints: [{ slug: 'a', overrides: { forced_model: 'nobody' } }, { slug: 'b' }],
      overrides: [
        { kind: 'kill', target: 'provider:none' },
        { kind: 'freeze', expires_at: '2020-01-01T00:00:00Z' },
        { kind: 'freeze', expires_at: '2027-13-01T00:00:00Z' },
        { kind: 'disable', value: { features: ['cache'] } },
      ],
    })
    expect(notes.map((note) => note.split(':')[0])).toEqual([
      'bootstrap.endpoints "a"',
      'bootstrap.overrides[0]',
      'bootstrap.overrides[2]',
      'bootstrap.endpoints "a"',
    ])
    expect([...log.state.table('overrides').rows()].map(([, { kind }]) => kind)).toEqual(['disable'])
    expect([...log.state.table('endpoints').rows()].map(([, row]) => row.slug)).toEqual(['b'])
  })
})
