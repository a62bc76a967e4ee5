import { expect, test } from 'bun:test'
import { nodeFiles } from '../../../src/log/files.ts'
import { PageCacheHints, pageCacheHintsOf } from '../../../src/log/segments/page-cache-hints.ts'

const MIB = 1024 * 1024

/** Hints as `write path start bytes` and `forget path start bytes`, in MiB. */
const recorded = (slowAt = -1) => {
  const hints: string[] = []
  let clockMs = 0
  const note = (kind: string) => (path: string, start: number, bytes: number) => {
    if (hints.length === slowAt) clockMs += 21
    hints.push(`${kind} ${path} ${start / MIB} ${bytes / MIB}`)
  }
  const pages = new PageCacheHints({ startWriting: note('write'), dropCached: note('forget') }, () => clockMs)
  return { pages, hints }
}

test('what was written is sent to the disk as soon as it fills a slice', () => {
  const { pages, hints } = recorded()
  pages.wrote('a', 0.75 * MIB)
  expect(hints).toEqual([])
  pages.wrote('a', 1.25 * MIB)
  pages.wrote('a', 1.75 * MIB)
  expect(hints).toEqual(['write a 0 1'])
  pages.wrote('a', 4.5 * MIB)
  expect(hints).toEqual(['write a 0 1', 'write a 1 1', 'write a 2 1', 'write a 3 1'])
})

test('the rest of a file is sent when the next one begins', () => {
  const { pages, hints } = recorded()
  pages.wrote('a', 1.5 * MIB)
  pages.wrote('b', 1 * MIB)
  expect(hints).toEqual(['write a 0 1', 'write a 1 0.5', 'write b 0 1'])
})

test('a slice is let go 64 slices after it was sent, each one once and in order, across files', () => {
  const { pages, hints } = recorded()
  for (let mib = 1; mib <= 40; mib++) pages.wrote('a', mib * MIB)
  for (let mib = 1; mib <= 60; mib++) pages.wrote('b', mib * MIB)
  const forgotten = hints.filter((hint) => hint.startsWith('forget'))
  expect(forgotten).toEqual(Array.from({ length: 36 }, (_, at) => `forget a ${at} 1`))
})

test('a disk that makes a hint wait is left alone for 256 slices', () => {
  const { pages, hints } = recorded(1)
  for (let mib = 1; mib <= 300; mib++) pages.wrote('a', mib * MIB)
  expect(hints.slice(0, 4)).toEqual(['write a 0 1', 'write a 1 1', 'write a 258 1', 'write a 259 1'])
  expect(hints).toHaveLength(2 + 300 - 258)
})

test('only segments that stay are looked after', () => {
  expect(pageCacheHintsOf({ until: 'shipped' }, nodeFiles)).toBeNull()
  const consumers = { requests: [], operations: [] }
  expect(pageCacheHintsOf({ until: 'projected', consumers, retentionMs: null }, nodeFiles)).toBeInstanceOf(
    PageCacheHints,
  )
})
