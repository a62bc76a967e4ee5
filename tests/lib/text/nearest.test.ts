import { expect, test } from 'bun:test'
import { nearest } from '../../../src/lib/text/nearest.ts'

const NAMES = ['start', 'worker', 'rebuild', 'topics', 'config', 'port']

test.each([
  ['strat', 'start'],
  ['wroker', 'worker'],
  ['Config', 'config'],
  ['prot', 'port'],
  ['rebuid', 'rebuild'],
])('%s is most likely %s', (typed, name) => expect(nearest(typed, NAMES)).toBe(name))

test.each([['verify'], ['x'], [''], ['a'.repeat(10_000)]])('%p is nothing known', (typed) =>
  expect(nearest(typed, NAMES)).toBeNull(),
)
