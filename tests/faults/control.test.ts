// Short runs of the control figures that are cheap: each script's own N is in `bun tests/faults/control/all.ts`.
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bootEmbedded } from './control/boot-embedded.ts'
import { digestFigures } from './control/digests.ts'
import type { Figure } from './control/figures.ts'
import { golden } from './control/golden.ts'
import { lostAcksInMemory } from './control/lost-acks.ts'
import { paused } from './control/paused.ts'
import { poison } from './control/poison.ts'
import { races } from './control/races.ts'
import { memoryWorld } from './control/world.ts'

/** Shows which figure missed its aim. */
const expectGood = (figures: readonly Figure[]) => {
  expect(figures.length).toBeGreaterThan(0)
  expect(figures.filter(({ good }) => !good)).toEqual([])
}

test('C1: of instances that race one wins', async () => {
  expectGood(await races(memoryWorld(), 2, 15))
  expectGood(await races(memoryWorld(), 5, 8))
}, 60_000)

test('C2: lost answers apply nothing twice and cause no false conflict', async () => {
  expectGood(await lostAcksInMemory(60))
}, 60_000)

test('C3: a writer that was stopped overwrites nothing', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'gatelog-paused-'))
  try {
    expectGood(await paused(300, 10, { adapter: 'embedded', dataDir }))
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}, 60_000)

test('C4: poison stops no instance', async () => {
  expectGood(await poison(memoryWorld(), 2))
}, 60_000)

test('C5: what earlier builds wrote folds to what they had', async () => {
  expectGood(await golden(memoryWorld))
}, 60_000)

test('C9: a start from the log and one from a snapshot end in the same state', async () => {
  expectGood([await bootEmbedded(1_000, Number.POSITIVE_INFINITY)])
}, 60_000)

test('C10: the state is the same whatever way it was folded', async () => {
  expectGood(await digestFigures(memoryWorld(), 320))
}, 60_000)
