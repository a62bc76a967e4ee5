// `bootstrap.price_corrections`: added once, in the order of the file, and never over what the API decided.
import { expect, test } from 'bun:test'
import { type Bootstrap, type BootstrapCorrection, checkBootstrap } from '../../../src/domain/bootstrap.ts'
import { INVERSES } from '../../../src/domain/inverse.ts'
import { correctionsOf, decidePriceCorrection } from '../../../src/domain/registry/price-correction.ts'
import { KINDS, kindOf } from '../../../src/providers/kinds.ts'
import { bootstrapProblem } from '../../../src/upkeep/bootstrap/check.ts'
import { exportedSections } from '../../../src/upkeep/export/bootstrap.ts'
import { type FoldingCommit, foldingCommit } from '../../http/admin/world/folding-commit.ts'
import { NOW_MS, seedInto } from './seeding.ts'

const DAY_MS = 86_400_000
const october: BootstrapCorrection = {
  ...{ provider: 'Vendor', model: 'Small', from: '2026-10-01', to: '2026-11-01T00:00:00Z' },
  ...{ input_cost_per_million: 0.12, output_cost_per_million: 0.6, reason: 'contract' },
}
const aDay: BootstrapCorrection = { ...october, from: '2026-10-05', to: '2026-10-06', output_cost_per_million: 0.5 }
const withCorrections = (...price_corrections: BootstrapCorrection[]): Bootstrap => ({
  providers: [{ name: 'vendor', kind: 'openai', models: [{ name: 'small' }, { name: 'large' }] }],
  price_corrections,
})
const newLog = () => foldingCommit(() => NOW_MS)
const standing = ({ state }: FoldingCommit) =>
  correctionsOf(state).map(({ from, output_cost_per_million: output, managed_by = 'api' }) => [
    from.slice(8, 10),
    output,
    managed_by,
  ])
/** What an operator corrects through the API: of days of October. */
const correct = (log: FoldingCommit, from: number, to: number) => {
  const [fromMs, toMs] = [from, to].map((day) => Date.UTC(2026, 9, 1) + (day - 1) * DAY_MS) as [number, number]
  const prices = { input_cost_per_million: 1, output_cost_per_million: 2, cached_input_cost_per_million: null }
  const about = { id: `pcor_of_the_api_${from}`, provider: 'vendor', model: 'small', reason: null }
  log.apply(decidePriceCorrection(log.state, { do: 'correct', ...about, fromMs, toMs, ...prices }))
}

test('a correction is seeded once, by the names that usage has; a changed one is one more, and the former is told of', async () => {
  const log = newLog()
  expect((await seedInto(log, withCorrections(october, aDay))).notes).toEqual([])
  expect(correctionsOf(log.state)).toMatchObject([
    { provider: 'vendor', model: 'small', from: '2026-10-01T00:00:00.000Z', to: '2026-11-01T00:00:00.000Z' },
    { from: '2026-10-05T00:00:00.000Z', cached_input_cost_per_million: null, reason: 'contract' },
  ])
  const decided = log.events.length
  expect((await seedInto(log, withCorrections(october, aDay))).notes).toEqual([])
  expect((await seedInto(log, withCorrections(aDay, { ...october, to: '2026-11-01' }))).notes).toEqual([])
  expect(log.events).toHaveLength(decided)
  const { notes } = await seedInto(log, withCorrections({ ...october, output_cost_per_million: 0.7 }, aDay))
  expect(standing(log)).toEqual([
    ['01', 0.6, 'bootstrap'],
    ['05', 0.5, 'bootstrap'],
    ['01', 0.7, 'bootstrap'],
  ])
  expect(notes).toEqual([
    expect.stringMatching(
      /^the price correction pcor_\S+ \("small" of "vendor"\) is no longer in bootstrap\.price_corrections;/,
    ),
  ])
})

test('one that is repeated after another holds over it, and needs a row of its own', async () => {
  const log = newLog()
  const settings = withCorrections(october, aDay, october)
  for (let start = 0; start < 2; start++) {
    expect((await seedInto(log, settings)).notes).toEqual([])
    expect(standing(log).map(([day]) => day)).toEqual(['01', '05', '01'])
  }
})

test('what the API corrected stands: an entry about the same time is told of and not made, one beside it is made', async () => {
  const log = newLog()
  await seedInto(log, withCorrections())
  correct(log, 3, 7)
  const { notes } = await seedInto(
    log,
    withCorrections(october, aDay, { ...aDay, from: '2026-10-07', to: '2026-10-08' }),
  )
  expect(notes.map((note) => note.split(':')[0])).toEqual([
    'bootstrap.price_corrections[0]',
    'bootstrap.price_corrections[1]',
  ])
  expect(standing(log)).toEqual([
    ['03', 2, 'api'],
    ['07', 0.5, 'bootstrap'],
  ])
  // Another model is another matter.
  await seedInto(log, withCorrections({ ...october, model: 'large' }))
  expect(standing(log)).toHaveLength(3)
})

test('what the API corrects since holds over what was seeded, at every further start', async () => {
  const log = newLog()
  const settings = withCorrections(october)
  await seedInto(log, settings)
  correct(log, 1, 32)
  const decided = log.events.length
  expect((await seedInto(log, settings)).notes).toEqual([])
  expect(log.events).toHaveLength(decided)
})

test('what a revert writes again belongs to the API', async () => {
  const log = newLog()
  await seedInto(log, withCorrections(october))
  const [row] = correctionsOf(log.state)
  const change = { table: 'price_corrections', id: row!.id, before: row, after: null }
  log.apply([{ type: 'price.correction_withdrawn', data: { id: row!.id } }])
  log.apply(INVERSES.price_corrections!.invert(log.state, change, {} as never))
  expect(standing(log)).toEqual([['01', 0.6, 'api']])
  expect((await seedInto(log, withCorrections())).notes).toEqual([])
})

test('a correction outlives its model here, and is left out of the file with a note', async () => {
  const log = newLog()
  const settings = withCorrections(october)
  await seedInto(log, settings)
  const exported = () => exportedSections(log.state, NOW_MS).find(({ name }) => name === 'price_corrections')!
  expect(exported()).toMatchObject({ notes: [], entries: [{ provider: 'vendor', model: 'small' }] })
  const [provider] = log.state.table('providers').find('name', 'vendor')
  log.apply([{ type: 'provider.deleted', data: { id: provider! } }])
  expect(exported().entries).toEqual([])
  expect(exported().notes).toEqual([expect.stringContaining('"small" of "vendor"')])
  const corrections = { price_corrections: settings.price_corrections! }
  expect((await seedInto(log, corrections)).notes).toEqual([])
  expect(standing(log)).toHaveLength(1)
})

test('a provider that nothing has stops the start before anything is written; a model that nobody has is told of', async () => {
  const log = newLog()
  const seeded = seedInto(log, withCorrections({ ...october, provider: 'none' }))
  await expect(seeded).rejects.toThrow('bootstrap.price_corrections[0].provider: there is no provider "none"')
  expect(log.events).toEqual([])
  const { notes } = await seedInto(log, withCorrections({ ...october, model: 'none' }, aDay))
  expect(notes).toEqual(['bootstrap.price_corrections[0]: "model": "vendor" has no model "none"'])
  expect(standing(log)).toHaveLength(1)
})

test.each<[object, string]>([
  [{ from: '2026-10-01T00:00:30Z' }, '[0].from: "from" must be a whole minute'],
  [{ to: '2026-10-01' }, '[0].from: "from" must be earlier than "to"'],
  [{ to: '2026-11-31' }, '[0].to: "2026-11-31" is not a time'],
  [{ to: '2026-13-01' }, '[0].to: "2026-13-01" is not a time'],
  [{ to: 'tomorrow' }, '[0].to'],
  [{ output_cost_per_million: 1e-7 }, '[0].output_cost_per_million: "output_cost_per_million" may have six decimals'],
  [{ output_cost_per_million: undefined }, '[0].output_cost_per_million'],
  [{ input_cost_per_million: -1 }, '[0].input_cost_per_million'],
  [{ modle: 'small' }, 'did you mean "model"'],
])('%j is refused with its key', (change, words) => {
  const given = JSON.parse(JSON.stringify({ price_corrections: [{ ...october, ...change }] }))
  const checked = checkBootstrap(given)
  const flaw = checked.ok
    ? bootstrapProblem(checked.value, { resolve: kindOf, names: [...KINDS.keys()] })
    : checked.error
  expect(flaw).toStartWith('bootstrap.price_corrections[0]')
  expect(flaw).toContain(words)
})
