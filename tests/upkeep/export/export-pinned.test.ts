// A reference to a model by its id means one row. The exported file keeps that meaning: in this installation, where it
// changes nothing, and in another one.
import { expect, test } from 'bun:test'
import { type Bootstrap, checkBootstrap } from '../../../src/domain/bootstrap.ts'
import { decideEndpoint, NOTHING_OVERRIDDEN } from '../../../src/domain/steering/endpoint.ts'
import { decidePolicy, POLICY_DEFAULTS } from '../../../src/domain/steering/policy.ts'
import { exportedText } from '../../../src/upkeep/export/bootstrap.ts'
import { type FoldingCommit, foldingCommit } from '../../http/admin/world/folding-commit.ts'
import { NOW_MS, seedInto } from '../bootstrap/seeding.ts'

const providers = (name: string): NonNullable<Bootstrap['providers']> =>
  ['one', 'two'].map((provider) => ({ name: provider, kind: 'sandbox', models: [{ name }] }))

const fileOf = ({ state }: FoldingCommit): { readonly text: string; readonly bootstrap: Bootstrap } => {
  const text = exportedText(state, NOW_MS, [])
  const checked = checkBootstrap((Bun.YAML.parse(text) as { bootstrap: unknown }).bootstrap)
  if (!checked.ok) throw new Error(checked.error)
  return { text, bootstrap: checked.value }
}

const rowOf = ({ state }: FoldingCommit, provider: string, name: string): string => {
  const [providerId] = state.table('providers').find('name', provider)
  const [id] = [...state.table('models').rows()].find(([, row]) => row.provider_id === providerId && row.name === name)!
  return id
}

/** Everything that names a model: by this id, and some of it by the name too. */
const pinned = (id: string, name: string): Bootstrap => ({
  policies: [{ name: 'pinned', models: [id], fallback: { models: [id, name], context_window_models: [id] } }],
  endpoints: [{ slug: 'scope', overrides: { forced_model: id, preferred_models: [name, id] } }],
  overrides: [{ kind: 'force', target: 'model:other', value: { model: id } }],
})

/** What names a model, as rows say it. */
const pins = ({ state }: FoldingCommit) => {
  const [policy, endpoint, override] = (['policies', 'endpoints', 'overrides'] as const).map(
    (table) => [...state.table(table).rows()][0]![1],
  )
  return { policy, endpoint, override }
}

const allPinned = (id: string, name: string): object => ({
  policy: { models: [id], fallback: { models: [id, name], context_window_models: [id] } },
  endpoint: { overrides: { forced_model: id, preferred_models: [name, id] } },
  override: { value: { model: id } },
})

test.each(['m', 'vendor/m', 'vendor/of/m'])(
  'a model %s that two providers serve, named by id, is that row in every import',
  async (name) => {
    const log = foldingCommit(() => NOW_MS)
    await seedInto(log, { providers: providers(name) })
    const id = rowOf(log, 'one', name)
    await seedInto(log, { providers: providers(name), ...pinned(id, name) })
    const { text, bootstrap } = fileOf(log)
    expect(text).not.toContain(id)

    const decided = log.events.length
    expect((await seedInto(log, bootstrap)).notes).toEqual([])
    expect(log.events.slice(decided)).toEqual([])

    const other = foldingCommit(() => NOW_MS + 1)
    expect((await seedInto(other, bootstrap)).notes).toEqual([])
    const there = rowOf(other, 'one', name)
    expect(pins(other)).toMatchObject(allPinned(there, name))
    expect(fileOf(other).text.replaceAll(/#.*\n/g, '')).toBe(text.replaceAll(/#.*\n/g, ''))
  },
)

test('a row that no text would be read as stays an id, and the file says so', async () => {
  const log = foldingCommit(() => NOW_MS)
  const wide: Bootstrap = { providers: [{ name: 'one', kind: 'sandbox', models: [{ name: 'm'.repeat(250) }] }] }
  await seedInto(log, wide)
  const id = rowOf(log, 'one', 'm'.repeat(250))
  await seedInto(log, { ...wide, policies: [{ name: 'pinned', models: [id] }] })
  const { text, bootstrap } = fileOf(log)
  expect(bootstrap.policies![0]!.models).toEqual([id])
  expect(text).toContain('# the policy "pinned" names models by id, which only this installation knows: "mmm')
})

test('a name that a model has is that name, whatever it looks like', async () => {
  const log = foldingCommit(() => NOW_MS)
  const named: Bootstrap = {
    providers: [
      { name: 'one', kind: 'sandbox', models: [{ name: 'm' }] },
      { name: 'two', kind: 'sandbox', models: [{ name: 'provider:one/m' }] },
    ],
    policies: [{ name: 'pinned', models: ['provider:one/m'] }],
  }
  await seedInto(log, named)
  expect([...log.state.table('policies').rows()][0]![1].models).toEqual(['provider:one/m'])
  await seedInto(log, { ...named, policies: [{ name: 'pinned', models: [rowOf(log, 'one', 'm')] }] })
  expect(fileOf(log).bootstrap.policies![0]!.models).toEqual([rowOf(log, 'one', 'm')])
})

test('a row that is not there yet is nothing, not the rows of its name, and each start looks again', async () => {
  const log = foldingCommit(() => NOW_MS)
  const policies: Bootstrap['policies'] = [{ name: 'pinned', models: ['provider:three/m'] }]
  const { notes } = await seedInto(log, { providers: providers('m'), policies })
  expect(notes).toEqual(['bootstrap.policies "pinned": models: no model has the name, alias or id "provider:three/m"'])
  const third = { name: 'three', kind: 'sandbox', models: [{ name: 'm' }] }
  expect((await seedInto(log, { providers: [...providers('m'), third], policies })).notes).toEqual([])
  expect([...log.state.table('policies').rows()][0]![1].models).toEqual([rowOf(log, 'three', 'm')])
})

test.each(['id', 'name'])(
  'an endpoint scope whose forced model is gone, named by %s, is left out with a note',
  async (by) => {
    const log = foldingCommit(() => NOW_MS)
    await seedInto(log, { providers: providers('m').slice(0, 1) })
    const id = rowOf(log, 'one', 'm')
    const forced_model = by === 'id' ? id : 'm'
    await seedInto(log, { endpoints: [{ slug: 'forced', overrides: { forced_model } }, { slug: 'free' }] })
    log.apply([{ type: 'model.deleted', data: { id } }])
    const { text, bootstrap } = fileOf(log)
    expect(bootstrap.endpoints!.map(({ slug }) => slug)).toEqual(['free'])
    expect(text).toContain(`# the endpoint scope "forced" is left out: its forced_model "${forced_model}" is gone`)
    expect(
      (
        await seedInto(
          foldingCommit(() => NOW_MS + 1),
          bootstrap,
        )
      ).notes,
    ).toEqual([])
  },
)

test.each([
  ['which has no such row', providers('m').slice(1)],
  ['which has the row', providers('m')],
])('what the API called so, %s, is no row elsewhere: it is marked, and the file says so', async (_, here) => {
  const log = foldingCommit(() => NOW_MS)
  await seedInto(log, { providers: here })
  const [text, long] = ['provider:one/m', `provider:one/${'m'.repeat(240)}`]
  const policy = {
    ...POLICY_DEFAULTS,
    models: [text],
    fallback: { models: ['m', text], context_window_models: [long] },
  }
  const overrides = { ...NOTHING_OVERRIDDEN, preferred_models: ['m', text] }
  log.apply([
    ...decidePolicy(log.state, { do: 'upsert', id: 'pol_1', tenant_id: null, name: 'p', managed_by: 'api', ...policy }),
    ...decideEndpoint(log.state, {
      ...{ do: 'upsert', id: 'end_1', slug: 's', tenant_id: null, name: 's', description: null, enabled: true },
      ...{ aliases: [], overrides },
    }),
  ])
  const { text: file, bootstrap } = fileOf(log)
  const gone = 'gone:provider:one/m'
  expect(bootstrap.policies![0]).toMatchObject({
    models: [gone],
    fallback: { models: ['m', gone], context_window_models: [`gone:${long}`.slice(0, 256)] },
  })
  expect(bootstrap.endpoints![0]!.overrides!.preferred_models).toEqual(['m', gone])
  expect(file).toContain(
    '# the endpoint scope "s" names models that are not there, "gone:" in front so that no start takes them for others: "provider:one/m"',
  )
  const decided = log.events.length
  await seedInto(log, bootstrap)
  expect(log.events.slice(decided)).toEqual([])

  // In another installation that provider has such a model: the list still admits no model.
  const other = foldingCommit(() => NOW_MS + 1)
  await seedInto(other, { ...bootstrap, providers: providers('m'), models: [] })
  expect([...other.state.table('policies').rows()][0]![1].models).toEqual([gone])
})

test('what the settings say of a row to come is exported as they say it', async () => {
  const log = foldingCommit(() => NOW_MS)
  const policies = [{ name: 'pinned', models: ['provider:three/m'] }]
  await seedInto(log, { providers: providers('m'), policies })
  expect(fileOf(log).bootstrap.policies).toEqual(policies)
})
