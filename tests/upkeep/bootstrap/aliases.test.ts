// Names that stand for models (aliases of models and of endpoint scopes) move to other entries in one file: one start
// leads to the state of the file.
import { describe, expect, test } from 'bun:test'
import type { Bootstrap, BootstrapEndpoint, BootstrapModel } from '../../../src/domain/bootstrap.ts'
import { type FoldingCommit, foldingCommit } from '../../http/admin/world/folding-commit.ts'
import { NOW_MS, seedInto } from './seeding.ts'

type Model = Omit<BootstrapModel, 'provider'>
const file = (
  models: readonly Model[],
  endpoints: readonly BootstrapEndpoint[] = [],
  more: Bootstrap = {},
): Bootstrap => ({
  tenants: [{ slug: 'acme', name: 'Acme' }],
  providers: [{ name: 'one', kind: 'sandbox', models: [...models] }],
  endpoints: [...endpoints],
  ...more,
})

/** A start: its number of decisions, and its notes. */
const start = async (log: FoldingCommit, bootstrap: Bootstrap) => {
  let decisions = 0
  const counting: FoldingCommit = {
    ...log,
    async commit(request) {
      const result = await log.commit(request)
      if (result.changed) decisions++
      return result
    },
  }
  const { notes } = await seedInto(counting, bootstrap)
  return { decisions, notes }
}
const begun = async (bootstrap: Bootstrap): Promise<FoldingCommit> => {
  const log = foldingCommit(() => NOW_MS)
  expect(await start(log, bootstrap)).toEqual({ decisions: 1, notes: [] })
  return log
}
/** Name or slug -> its words. */
const words = ({ state }: FoldingCommit): Record<string, readonly string[]> =>
  Object.fromEntries([
    ...[...state.table('models').rows()].map(([, { name, aliases }]) => [name, aliases]),
    ...[...state.table('endpoints').rows()].map(([, { slug, aliases }]) => [slug, aliases]),
  ])
const modelNamed = ({ state }: FoldingCommit, name: string) =>
  [...state.table('models').rows()].map(([, row]) => row).find((row) => row.name === name)!

const exchanges: [string, Bootstrap, Bootstrap, Record<string, string[]>][] = [
  [
    'a model and a scope',
    file([{ name: 'm1', aliases: ['slow'] }], [{ slug: 'chat', aliases: ['fast'] }]),
    file([{ name: 'm1', aliases: ['fast'] }], [{ slug: 'chat', aliases: ['slow'] }]),
    { m1: ['fast'], chat: ['slow'] },
  ],
  [
    'two scopes',
    file(
      [{ name: 'm1' }],
      [
        { slug: 's1', aliases: ['a'] },
        { slug: 's2', aliases: ['b'] },
      ],
    ),
    file(
      [{ name: 'm1' }],
      [
        { slug: 's1', aliases: ['b'] },
        { slug: 's2', aliases: ['a'] },
      ],
    ),
    { m1: [], s1: ['b'], s2: ['a'] },
  ],
  [
    'two models',
    file([
      { name: 'm1', aliases: ['a'] },
      { name: 'm2', aliases: ['b'] },
    ]),
    file([
      { name: 'm1', aliases: ['b'] },
      { name: 'm2', aliases: ['a'] },
    ]),
    { m1: ['b'], m2: ['a'] },
  ],
  [
    'two models and two scopes, in a circle',
    file(
      [
        { name: 'm1', aliases: ['a', 'mine'] },
        { name: 'm2', aliases: ['b'] },
      ],
      [
        { slug: 's1', aliases: ['c'] },
        { slug: 's2', aliases: ['d', 'own'] },
      ],
    ),
    file(
      [
        { name: 'm1', aliases: ['mine', 'd'] },
        { name: 'm2', aliases: ['c'] },
      ],
      [
        { slug: 's1', aliases: ['b'] },
        { slug: 's2', aliases: ['own', 'a'] },
      ],
    ),
    { m1: ['mine', 'd'], m2: ['c'], s1: ['b'], s2: ['own', 'a'] },
  ],
  [
    'a model, a scope and a new model of the name of a word',
    file([{ name: 'm1', aliases: ['slow', 'new'] }], [{ slug: 'chat', aliases: ['fast'] }]),
    file([{ name: 'new' }, { name: 'm1', aliases: ['fast'] }], [{ slug: 'chat', aliases: ['slow'] }]),
    { m1: ['fast'], new: [], chat: ['slow'] },
  ],
]

describe('words that are exchanged between', () => {
  test.each(exchanges)('%s: one start, one decision, and what the file says', async (_, before, after, expected) => {
    const log = await begun(before)
    expect(await start(log, after)).toEqual({ decisions: 1, notes: [] })
    expect(words(log)).toEqual(expected)
    expect(await start(log, after)).toEqual({ decisions: 0, notes: [] })
  })

  test('a model and a scope take the rest of the entries along, and what names a word finds it', async () => {
    const log = await begun(file([{ name: 'm1', aliases: ['slow'] }], [{ slug: 'chat', aliases: ['fast'] }]))
    const after = file(
      [{ name: 'm1', aliases: ['fast'], priority: 7 }],
      [
        { slug: 'chat', aliases: ['slow'], description: 'changed' },
        { slug: 'forced', overrides: { forced_model: 'fast' } },
      ],
      { overrides: [{ kind: 'force', target: '*', value: { model: 'fast' } }] },
    )
    expect(await start(log, after)).toEqual({ decisions: 1, notes: [] })
    expect(modelNamed(log, 'm1').priority).toBe(7)
    expect([...log.state.table('endpoints').rows()].map(([, row]) => row.description)).toEqual(['changed', null])
    expect(log.state.table('overrides').size).toBe(1)
    expect(await start(log, after)).toEqual({ decisions: 0, notes: [] })
  })

  test('scopes of two tenants is none: each has its own', async () => {
    const scopes = (one: string, two: string) =>
      file(
        [],
        [
          { slug: 's', aliases: [one] },
          { slug: 's', tenant: 'acme', aliases: [two] },
        ],
      )
    const log = await begun(scopes('a', 'b'))
    expect(await start(log, scopes('b', 'a'))).toEqual({ decisions: 1, notes: [] })
  })
})

describe('a word that cannot be had', () => {
  const owned = async (): Promise<FoldingCommit> => {
    const log = await begun(file([{ name: 'm1' }], [{ slug: 'chat', aliases: ['fast'] }]))
    const [[id]] = [...log.state.table('endpoints').rows()] as [[string, object]]
    log.apply([{ type: 'endpoint.changed', data: { id, name: 'Mine', managed_by: 'api' } }])
    return log
  }

  test('is told at each start, and nothing else of the entry is left out', async () => {
    const log = await owned()
    const after = file([{ name: 'm1', aliases: ['quick', 'fast', 'swift'], priority: 7 }], [{ slug: 'chat' }])
    const notes = [
      'bootstrap.models "m1" of "one": it goes without the alias "fast": "fast" is an alias of the endpoint scope "chat"',
    ]
    expect(await start(log, after)).toEqual({ decisions: 1, notes })
    expect(modelNamed(log, 'm1')).toMatchObject({ aliases: ['quick', 'swift'], priority: 7 })
    expect(await start(log, after)).toEqual({ decisions: 0, notes })
  })

  test('keeps no new entry from being made', async () => {
    const log = await owned()
    const after = file(
      [{ name: 'm1' }, { name: 'm2', aliases: ['fast'] }],
      [{ slug: 'chat' }, { slug: 'other', aliases: ['fast', 'm1', 'free'] }],
    )
    const { decisions, notes } = await start(log, after)
    expect(decisions).toBe(1)
    expect(notes).toEqual([
      'bootstrap.models "m2" of "one": it goes without the alias "fast": "fast" is an alias of the endpoint scope "chat"',
      'bootstrap.endpoints "other": it goes without the alias "fast": "fast" is an alias of the endpoint scope "chat"',
      'bootstrap.endpoints "other": it goes without the alias "m1": "m1" is the name of a model',
    ])
    expect(words(log)).toEqual({ m1: [], m2: [], chat: ['fast'], other: ['free'] })
    expect(await start(log, after)).toEqual({ decisions: 0, notes })
  })

  test("of a tenant's scope is told where a model has it, which it does not hold up", async () => {
    const scopes = [{ slug: 'own', tenant: 'default', aliases: ['m2', 'free'] }]
    const log = await begun(file([{ name: 'm1' }], scopes))
    const after = file([{ name: 'm1' }, { name: 'm2' }], scopes)
    const notes = [
      expect.stringContaining('bootstrap.endpoints "own": aliases: "m2" is the name or an alias of a model'),
    ]
    expect(await start(log, after)).toEqual({ decisions: 1, notes })
    expect(words(log)).toEqual({ m1: [], m2: [], own: ['m2', 'free'] })
    expect(await start(log, after)).toEqual({ decisions: 0, notes })
    const elsewhere = await begun(file([{ name: 'm0' }], []))
    await start(elsewhere, after)
    expect(words(elsewhere)).toMatchObject({ m2: [], own: ['m2', 'free'] })
  })

  test('since two entries want it stays with the one that has it', async () => {
    const log = await begun(file([{ name: 'm1' }], [{ slug: 'chat', aliases: ['fast'] }]))
    const both = file([{ name: 'm1', aliases: ['fast'] }], [{ slug: 'chat', aliases: ['fast'] }])
    const notes = [expect.stringContaining('"m1" of "one": it goes without the alias "fast"')]
    expect(await start(log, both)).toEqual({ decisions: 0, notes })
    expect(words(log)).toEqual({ m1: [], chat: ['fast'] })
  })

  test('is not told of what the API owns, nor of a model that is called so', async () => {
    const log = await owned()
    const of = file([{ name: 'm1', aliases: ['M1'] }], [{ slug: 'chat', aliases: ['m1'] }])
    expect(await start(log, of)).toEqual({ decisions: 0, notes: [] })
  })
})
