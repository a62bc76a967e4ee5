// A short run of the figures of rotation and erasure; their own N is in `bun tests/faults/control/keys/keys.ts`.
import { expect, test } from 'bun:test'
import { keyFigures } from './control/keys/keys.ts'

test('no secret is lost by a rotation that is killed, and nothing opens what was erased', async () => {
  const figures = await keyFigures(2)
  expect(figures.filter(({ good }) => !good)).toEqual([])
  expect(figures.map(({ row }) => row)).toEqual(['keys', 'erasure', 'erasure'])
}, 120_000)
