// Failures are collected from the output of the test runner.
import { expect, test } from 'bun:test'
import { Failures } from './failures.ts'

test('what was printed before a failed test is kept, however the text is cut, and nothing of those that passed', () => {
  const text =
    '\na.test.ts:\nsaid by one\n(pass) one [1.00ms]\n10 | expect(1).toBe(2)\nerror: no\n' +
    '(fail) two [2.00ms]\n(pass) three\n1 tests failed:\n(fail) two [2.00ms]\n'
  for (let size = 1; size < text.length; size++) {
    const failures = new Failures()
    for (let at = 0; at < text.length; at += size) failures.add(text.slice(at, at + size))
    expect(failures.told).toEqual([['10 | expect(1).toBe(2)', 'error: no', '(fail) two [2.00ms]']])
  }
})

test('of much that is printed the end is kept, and of many failures the first', () => {
  const failures = new Failures()
  for (let test = 0; test < 30; test++) failures.add(`${'x\n'.repeat(200)}(fail) ${test}\n`)
  expect(failures.told.map((lines) => [lines.length, lines.at(-1)])).toEqual(
    Array.from({ length: 20 }, (_, test) => [80, `(fail) ${test}`]),
  )
})
