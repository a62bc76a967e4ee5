// What the guard and the static table make of labelled pairs. The figures of each class are printed.
import { beforeAll, describe, expect, test } from 'bun:test'
import { DEFAULT_SIMILARITY } from '../../../../src/inference/cache/rule.ts'
import { readText, unlikeBy } from '../../../../src/inference/cache/semantic/guard.ts'
import { loadStaticTable, type StaticTable } from '../../../../src/inference/cache/semantic/static-table.ts'
import { similarity } from '../../../../src/inference/cache/semantic/vector.ts'
import { CLASSES, labelledPairs, type Pair } from './labelled.ts'

let table: StaticTable

beforeAll(async () => {
  table = await loadStaticTable()
})

const near = ({ left, right }: Pair, threshold = DEFAULT_SIMILARITY): boolean => {
  const [a, b] = [table.vectorOf(left), table.vectorOf(right)]
  return a !== null && b !== null && similarity(a, b)! >= threshold
}
const accepted = ({ left, right }: Pair): boolean => unlikeBy(readText(left), readText(right)) === null

/** Pairs, those that the vectors alone accept, and hits; for each class. */
const figures = (pairs: readonly Pair[]) =>
  CLASSES.map((kind) => {
    const all = pairs.filter((pair) => pair.kind === kind)
    return {
      class: kind,
      pairs: all.length,
      vectors_alone: all.filter((pair) => near(pair)).length,
      hits: all.filter((pair) => near(pair) && accepted(pair)).length,
    }
  })

describe.each(['tuning', 'held-out'] as const)('the %s set', (name) => {
  const pairs = labelledPairs(name)
  const traps = pairs.filter(({ kind }) => kind !== 'same')

  test('has no hit on a trap, and finds more than a third of the paraphrases', () => {
    const rows = figures(pairs)
    console.table(rows)
    const same = rows.find((row) => row.class === 'same')!
    expect(traps.filter((pair) => near(pair) && accepted(pair))).toEqual([])
    expect(same.hits / same.pairs).toBeGreaterThanOrEqual(0.35)
  })

  test('the guard alone refuses every trap, whatever the threshold and the vectors', () => {
    expect(traps.filter(accepted)).toEqual([])
  })

  test('the guard does not depend on which text came first', () => {
    const swapped = pairs.map(({ kind, left, right }) => ({ kind, left: right, right: left }))
    expect(swapped.map(accepted)).toEqual(pairs.map(accepted))
  })

  test('every text is like itself', () => {
    const texts = pairs.flatMap(({ left, right }) => [left, right])
    expect(texts.filter((text) => unlikeBy(readText(text), readText(text)) !== null)).toEqual([])
  })
})

test('the sets are large enough, cover every class and share no text of a trap', () => {
  const [held, tuned] = [labelledPairs('held-out'), labelledPairs('tuning')]
  expect(held.length).toBeGreaterThanOrEqual(500)
  expect(held.filter(({ kind }) => kind !== 'same').length).toBeGreaterThanOrEqual(200)
  expect(CLASSES.filter((kind) => held.filter((pair) => pair.kind === kind).length < 25)).toEqual([])
  const pairOf = ({ left, right }: Pair) => [left, right].sort().join('\n').toLowerCase()
  const seen = new Set(tuned.map(pairOf))
  expect(held.filter((pair) => seen.has(pairOf(pair)))).toEqual([])
  expect(new Set(held.map(pairOf)).size).toBe(held.length)
})
