// The fault matrix is complete: rows R1 to R33, each with scripts that exist or a reason.
import { expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { FAULT_ROWS } from './table.ts'

const ROOT = join(import.meta.dir, '../..')

test('every row from R1 to R33 is there once, in order', () => {
  expect(FAULT_ROWS.map(({ row }) => row)).toEqual(Array.from({ length: 33 }, (_, i) => `R${i + 1}` as const))
})

test('every row is run, or says why it is not', () => {
  expect(FAULT_ROWS.filter(({ runs, missing }) => runs.length === 0 && missing === undefined)).toEqual([])
})

test('what a row names is there', () => {
  const named = FAULT_ROWS.flatMap(({ runs, inTests = [] }) => [...runs.map(({ script }) => script), ...inTests])
  expect(named.filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
})
