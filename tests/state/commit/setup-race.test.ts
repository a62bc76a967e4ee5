import { expect, test } from 'bun:test'
import { raceSetUps } from '../../faults/control/setup/setup.ts'
import { memoryWorld } from '../../faults/control/world.ts'

test('of set-ups that are raced on three instances one wins, each time', async () => {
  expect(await raceSetUps(60, memoryWorld)).toMatchObject({ good: true, n: 60 })
}, 60_000)
