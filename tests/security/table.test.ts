// The page and the tests name each other, both ways.
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { namedTests, SECURITY_ROWS, securityTable } from './rows.ts'

const page = readFileSync(join(import.meta.dir, '../../docs/security.md'), 'utf8')

test('every row of the security list has a test that is named with its number, and no test another number', () => {
  const numbers = SECURITY_ROWS.map(({ number }) => number)
  expect(numbers).toEqual([...new Set(numbers)].sort((a, b) => a - b))
  const tested = new Set(namedTests().map(({ number }) => number))
  expect([...tested].sort((a, b) => a - b)).toEqual(SECURITY_ROWS.map(({ number }) => number))
})

test('docs/security.md holds the table that `npm run security -- --table` prints, and its count', () => {
  expect(page).toContain(securityTable())
  const holding = SECURITY_ROWS.filter(({ absent }) => absent === undefined).length
  expect(page).toContain(`${holding} of ${SECURITY_ROWS.length} rows hold`)
})
