// Entries whose row was deleted through the API: a start leaves them out, says so, and makes them anew once where
// `bootstrap.recreate` names them.
import { describe, expect, test } from 'bun:test'
import { type Bootstrap, checkBootstrap } from '../../../src/domain/bootstrap.ts'
import { MOST_REMOVED } from '../../../src/domain/removed-rows.ts'
import { type Installation, install, rowsOf } from './installation.ts'

const LOCAL = { name: 'local', kind: 'openai_compatible', base_url: 'http://127.0.0.1:9/v1' }
const settings: Bootstrap = {
  tenants: [{ slug: 'acme', name: 'Acme' }],
  providers: [{ ...LOCAL, models: [{ name: 'a' }, { name: 'b' }] }],
  policies: [{ name: 'careful', tenant: 'acme', max_cost_usd: 1 }],
  endpoints: [{ slug: 'chat' }],
  budgets: [{ tenant: 'acme', window: 'day', limit_usd: 1 }],
  cache_rules: [{ name: 'all', ttl_seconds: 60 }],
  tools: [{ name: 'weather' }],
  tool_policies: [{ name: 'runs' }],
  price_corrections: [
    {
      provider: 'local',
      model: 'a',
      from: '2026-10-01',
      to: '2026-11-01',
      input_cost_per_million: 1,
      output_cost_per_million: 2,
    },
  ],
}
const BY_API = { managed_by: 'api' } as const
type Section = 'providers' | 'models' | 'policies' | 'endpoints' | 'budgets' | 'cache_rules' | 'tools' | 'tool_policies'
/** The event of an API's deletion, and how the row is named. */
const DELETED: readonly (readonly [Section | 'price_corrections', event: string, name: string])[] = [
  ['providers', 'provider.deleted', 'providers/local'],
  ['models', 'model.deleted', 'models/local/a'],
  ['policies', 'policy.deleted', 'policies/acme/careful'],
  ['endpoints', 'endpoint.deleted', 'endpoints/chat'],
  ['budgets', 'budget.deleted', 'budgets/acme/day/tenant'],
  ['cache_rules', 'cache_rule.deleted', 'cache_rules/all'],
  ['tools', 'tool.deleted', 'tools/weather'],
  ['tool_policies', 'tool_policy.deleted', 'tool_policies/runs'],
  ['price_corrections', 'price.correction_withdrawn', 'price_corrections/local/a/2026-10-01T00:00:00.000Z'],
]
const firstOf = (at: Installation, section: Section | 'price_corrections', place = 0): string | undefined =>
  [...at.log.state.table(section).rows()].at(place)?.[0]
const seeded = async (): Promise<Installation> => {
  const at = install()
  expect((await at.seed(settings)).notes).toEqual([])
  return at
}

// docs/behaviour.md: "First start and bootstrap"
describe('what was deleted through the API', () => {
  test.each(DELETED)(
    'of %s stays deleted, each start says so, and recreate makes it anew once',
    async (section, type, name) => {
      const at = await seeded()
      const size = at.log.state.table(section).size
      const remove = (place = 0) => at.log.apply([{ type, data: { id: firstOf(at, section, place) } }])
      remove()
      for (let start = 0; start < 2; start++) {
        const { notes } = await at.seed(settings)
        expect(at.log.state.table(section).size).toBeLessThan(size)
        const about = notes.filter((note) => note.includes('was deleted through the API'))
        expect(about).toEqual([expect.stringContaining(`"${name}" under bootstrap.recreate`)])
      }
      const again = { ...settings, recreate: [name.toUpperCase().replace(/^[^/]*/, section)] }
      expect((await at.seed(again)).notes).toEqual([])
      expect(at.log.state.table(section).size).toBe(size)
      expect((await at.seed(again)).notes).toEqual([])
      expect((await at.seed(settings)).notes).toEqual([])
      remove(-1)
      const { notes } = await at.seed(again)
      expect(notes.filter((note) => note.includes('it was made anew once before'))).toHaveLength(1)
      expect(at.log.state.table(section).size).toBeLessThan(size)
    },
  )

  test('a row that the API edited before it deleted it stays deleted too', async () => {
    const at = await seeded()
    const id = firstOf(at, 'policies')
    at.log.apply([{ type: 'policy.changed', data: { id, max_cost_usd: 2, ...BY_API } }])
    at.log.apply([{ type: 'policy.deleted', data: { id } }])
    expect((await at.seed(settings)).notes).toHaveLength(1)
    expect(rowsOf(at, 'policies')).toEqual([])
  })

  test('a row that the API made again is its own; deleted once more, recreate brings it back', async () => {
    const at = await seeded()
    const [row] = rowsOf(at, 'tool_policies')
    at.log.apply([{ type: 'tool_policy.deleted', data: { id: row!.id } }])
    const { created_at: _, updated_at: __, revision: ___, ...fields } = row!
    at.log.apply([{ type: 'tool_policy.created', data: { ...fields, id: 'tpol_new', ...BY_API } }])
    expect((await at.seed(settings)).notes).toEqual([])
    at.log.apply([{ type: 'tool_policy.deleted', data: { id: 'tpol_new' } }])
    await at.seed({ ...settings, recreate: ['tool_policies/runs'] })
    expect(rowsOf(at, 'tool_policies')).toMatchObject([{ managed_by: 'bootstrap' }])
  })

  test('providers of usual variables and the sandbox stay deleted', async () => {
    const at = install()
    at.env = { OPENAI_API_KEY: 'sk-1' }
    await at.seed()
    at.log.apply([{ type: 'provider.deleted', data: { id: firstOf(at, 'providers') } }])
    expect((await at.seed()).notes).toContain(
      'the provider of OPENAI_API_KEY: it was deleted through the API and is left out; "providers/openai" under bootstrap.recreate makes it anew once',
    )
    at.env = {}
    at.log.apply([{ type: 'provider.deleted', data: { id: firstOf(at, 'providers') } }])
    await at.seed()
    expect(rowsOf(at, 'providers')).toEqual([])
    await at.seed({ recreate: ['providers/sandbox'] })
    expect(rowsOf(at, 'providers').map(({ name }) => name)).toEqual(['sandbox'])
  })

  test('a tenant stays deleted with its entries; what falls with it or with a provider comes back with it', async () => {
    const at = await seeded()
    const [acme] = at.log.state.table('tenants').find('slug', 'acme')
    at.log.apply([{ type: 'tenant.deleted', data: { id: acme } }])
    at.log.apply([{ type: 'provider.deleted', data: { id: firstOf(at, 'providers') } }])
    await at.seed(settings)
    expect([rowsOf(at, 'policies'), rowsOf(at, 'models')]).toEqual([[], []])
    await at.seed({ ...settings, recreate: ['tenants/acme', 'providers/local'] })
    expect([rowsOf(at, 'policies').length, rowsOf(at, 'budgets').length]).toEqual([1, 1])
    expect(rowsOf(at, 'models').map(({ name }) => name)).toEqual(['a', 'b'])
  })

  test('the state remembers a bounded number of names, of the settings apart from those of the API', async () => {
    const at = await seeded()
    at.log.apply([{ type: 'tool.deleted', data: { id: firstOf(at, 'tools') } }])
    const row = at.log.events.find(({ type }) => type === 'tool.registered')!.data
    for (let n = 0; n < MOST_REMOVED + 5; n++) {
      const id = `tool_${n}`
      at.log.apply([{ type: 'tool.registered', data: { ...row, ...BY_API, id, name: `n${n}` } }])
      at.log.apply([{ type: 'tool.deleted', data: { id } }])
    }
    expect(at.log.state.table('removed_rows').size).toBe(MOST_REMOVED)
    expect(at.log.state.table('removed_seeded_rows').size).toBe(1)
    expect((await at.seed(settings)).notes).toHaveLength(1)
  }, 60_000)
})

test.each(['local', 'keys/a', 'providers/', '/x', 'nothing/x'])('%j is no name for recreate', (name) => {
  const checked = checkBootstrap({ recreate: [name] })
  expect(checked.ok).toBe(false)
  if (!checked.ok) expect(checked.error).toStartWith('bootstrap.recreate[0]')
})
