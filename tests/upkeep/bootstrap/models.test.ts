// A field that an entry about a model no longer has is removed, as in each other section. A field that a catalogue may
// have filled stays, with a note.
import { describe, expect, test } from 'bun:test'
import type { Bootstrap, BootstrapModel } from '../../../src/domain/bootstrap.ts'
import type { ListedModel } from '../../../src/providers/port.ts'
import { type FoldingCommit, foldingCommit } from '../../http/admin/world/folding-commit.ts'
import { NOW_MS, seedInto } from './seeding.ts'

type Entry = Omit<BootstrapModel, 'provider'>
const settings = (...models: Entry[]): Bootstrap => ({ providers: [{ name: 'one', kind: 'sandbox', models }] })
const seeded = async (...models: Entry[]): Promise<FoldingCommit> => {
  const log = foldingCommit(() => NOW_MS)
  expect((await seedInto(log, settings(...models))).notes).toEqual([])
  return log
}
const rows = ({ state }: FoldingCommit) => [...state.table('models').rows()].map(([, row]) => row)
const aliases = (log: FoldingCommit) => Object.fromEntries(rows(log).map((row) => [row.name, row.aliases]))
/** Notes of a start, once a further one has shown that it has nothing left to do. */
const settled = async (log: FoldingCommit, bootstrap: Bootstrap): Promise<readonly string[]> => {
  const { notes } = await seedInto(log, bootstrap)
  const decided = log.events.length
  expect((await seedInto(log, bootstrap)).notes).toEqual(notes)
  expect(log.events.slice(decided)).toEqual([])
  return notes
}

describe('what an entry no longer says', () => {
  test('ends where no catalogue fills it', async () => {
    const said = { aliases: ['fast'], priority: 5, upstream_model: 'other', enabled: false }
    const log = await seeded({ name: 'm', ...said })
    expect(rows(log)[0]).toMatchObject({ ...{ aliases: ['fast'], priority: 5, upstream_model: 'other' } })
    expect(await settled(log, settings({ name: 'm' }))).toEqual([])
    expect(rows(log)[0]).toMatchObject({
      ...{ aliases: [], priority: 100, upstream_model: 'm', status: 'active', managed_by: 'bootstrap' },
    })
  })

  test('ends with the price that it belonged to', async () => {
    const price = { input_cost_per_million: 2, output_cost_per_million: 4 }
    const tiers = [{ above_prompt_tokens: 9, ...price, cached_input_cost_per_million: null }]
    const log = await seeded({ name: 'm', ...price, cached_input_cost_per_million: 1, price_tiers: tiers })
    expect(await settled(log, settings({ name: 'm', ...price }))).toEqual([])
    expect(rows(log)[0]).toMatchObject({ ...price, cached_input_cost_per_million: null, price_tiers: null })
  })

  test('stays, with a note, where a catalogue may have said it', async () => {
    const said = { input_cost_per_million: 9, max_output_tokens: null, capabilities: ['chat' as const] }
    const log = await seeded({ name: 'm', ...said })
    const before = rows(log)[0]!
    expect(await settled(log, settings({ name: 'm' }))).toEqual([
      'bootstrap.models "m" of "one": capability_source: what the model has stays, though nothing says it here and a new model would have another: say capabilities',
      'bootstrap.models "m" of "one": input_cost_per_million: what the model has stays, though nothing says it here and a new model would have another: say it, or null',
    ])
    expect(rows(log)[0]).toEqual(before)
    expect(await settled(log, settings({ name: 'm', ...said, input_cost_per_million: null }))).toEqual([])
    expect(rows(log)[0]).toMatchObject({ input_cost_per_million: null })
  })

  test('is not told where what the entry says ended it', async () => {
    const price = { input_cost_per_million: 2, output_cost_per_million: 4 }
    const tiers = [{ above_prompt_tokens: 9, ...price, cached_input_cost_per_million: null }]
    const log = await seeded({ name: 'm', price_tiers: tiers })
    expect(await settled(log, settings({ name: 'm', cached_input_cost_per_million: 1 }))).toEqual([])
    expect(rows(log)[0]).toMatchObject({ cached_input_cost_per_million: 1, price_tiers: null })
  })

  test('is told where the provider has no listing that could have said it', async () => {
    const of = (window: object): Bootstrap => ({
      providers: [{ name: 'one', kind: 'perplexity', models: [{ name: 'm', ...window }] }],
    })
    const log = foldingCommit(() => NOW_MS)
    await seedInto(log, of({ context_window: 5 }))
    expect(await settled(log, of({}))).toEqual([expect.stringContaining('"one": context_window: what the model has')])
    expect(await settled(log, of({ context_window: 5 }))).toEqual([])
  })

  describe('and a note says so only where it is known that a new model would have another', () => {
    const of = (kind: string, said: Partial<Entry> = {}): Bootstrap => ({
      providers: [{ name: 'one', kind, models: [{ name: 'm', ...said }] }],
    })
    /** The members that the notes of a start name: its entry has no members, the one of the start before had `said`. */
    const told = async (kind: string, said: Partial<Entry>, listed: Partial<ListedModel> | null): Promise<string[]> => {
      const log = foldingCommit(() => NOW_MS)
      expect((await seedInto(log, of(kind, said), listed)).notes).toEqual([])
      return (await settled(log, of(kind))).map((note) => note.split(': ')[1]!)
    }
    const [price, size] = [{ input_cost_per_million: 9, output_cost_per_million: 9 }, { context_window: 5 }]
    const BOTH = 'input_cost_per_million, output_cost_per_million'

    test.each<[string, string, Partial<Entry>, Partial<ListedModel> | null, string[]]>([
      ['a listing that names prices', 'openrouter', {}, { inputCostPerMillion: 2, outputCostPerMillion: 3 }, []],
      ['the file, where a listing may have', 'openrouter', price, null, []],
      [
        'nobody, where a catalogue knows by now',
        'openrouter',
        { input_cost_per_million: null },
        null,
        ['input_cost_per_million'],
      ],
      ['the file, where no listing names prices', 'openai', price, null, [BOTH]],
      ['the file, where there is no listing', 'perplexity', { ...price, ...size }, null, [`${BOTH}, context_window`]],
      ['a listing of sizes', 'openai', {}, { contextWindow: 7, maxOutputTokens: 8 }, []],
      ['a listing of capabilities', 'openai', {}, { capabilities: ['vision'] }, []],
    ])('said by %s', async (_, kind, said, listed, members) => {
      expect(await told(kind, said, listed)).toEqual(members)
    })

    test.each<[string, string, string[]]>([
      ['openai', 'operator', ['capabilities']],
      ['openai', 'catalogue', ['capabilities']],
      ['openai', 'kind', ['capabilities']],
      ['openai', 'detected', ['capabilities']],
      ['perplexity', 'provider', ['capabilities']],
      ['openai', 'provider', []],
    ])('capabilities, at %s, that the file said with the source %s', async (kind, capability_source, members) => {
      expect(await told(kind, { capabilities: ['vision'], capability_source }, null)).toEqual(members)
    })
  })

  test('stays, without a word, where the API owns the row', async () => {
    const log = await seeded({ name: 'm', aliases: ['fast'], input_cost_per_million: 9 })
    log.apply([{ type: 'model.changed', data: { id: rows(log)[0]!.id, priority: 3, managed_by: 'api' } }])
    expect(await settled(log, settings({ name: 'm' }))).toEqual([])
    expect(rows(log)[0]).toMatchObject({ aliases: ['fast'], priority: 3, input_cost_per_million: 9 })
  })
})

describe('a word that goes from one to another in one file', () => {
  const turns: [string, Entry[]][] = [
    ['up', [{ name: 'm2', aliases: ['fast'] }, { name: 'm1' }]],
    ['down', [{ name: 'm1' }, { name: 'm2', aliases: ['fast'] }]],
  ]
  test.each(turns)('as an alias, %s the file', async (_, models) => {
    const log = await seeded({ name: 'm1', aliases: ['fast'] }, { name: 'm2' })
    expect(await settled(log, settings(...models))).toEqual([])
    expect(aliases(log)).toEqual({ m1: [], m2: ['fast'] })
  })

  test.each([[[{ name: 'fast' }, { name: 'm1' }]], [[{ name: 'm1' }, { name: 'fast' }]]])(
    'to a model of that name, in either order: %j',
    async (models) => {
      const log = await seeded({ name: 'm1', aliases: ['fast'] })
      expect(await settled(log, settings(...models))).toEqual([])
      expect(aliases(log)).toEqual({ m1: [], fast: [] })
    },
  )

  test('from an endpoint scope to a model, and back', async () => {
    const log = foldingCommit(() => NOW_MS)
    const scope = { slug: 'chat', overrides: { forced_model: 'm1' } }
    const ofScope = { ...settings({ name: 'm1' }), endpoints: [{ ...scope, aliases: ['fast'] }] }
    const ofModel = { ...settings({ name: 'm1', aliases: ['fast'] }), endpoints: [scope] }
    for (const bootstrap of [ofScope, ofModel, ofScope]) expect(await settled(log, bootstrap)).toEqual([])
    expect(aliases(log)).toEqual({ m1: [] })
    expect([...log.state.table('endpoints').rows()].map(([, row]) => row.aliases)).toEqual([['fast']])
  })
})
