import { expect, test } from 'bun:test'
import { letGoWhenWarm } from '../../src/upkeep/program-pages.ts'
import { eventually } from '../services/eventually.ts'

const LONG_MS = 600_000

const listening = () => {
  const told: [string, unknown][] = []
  return { told, debug: (event: string, fields?: object) => void told.push([event, fields]) }
}

test('the program is let go of after its time and again and again, until that is closed', async () => {
  const diagnostics = listening()
  const pages = letGoWhenWarm(diagnostics, { firstMs: 1, everyMs: 30 })
  await eventually('three times', () => diagnostics.told.length >= 3)
  pages.close()
  const { length } = diagnostics.told
  await Bun.sleep(100)
  expect(diagnostics.told.length).toBeLessThanOrEqual(length + 1) // one may have begun
  for (const each of diagnostics.told) expect(each).toEqual(['program_pages_let_go', { bytes: expect.any(Number) }])
})

test('the first time is not the interval', async () => {
  const diagnostics = listening()
  const pages = letGoWhenWarm(diagnostics, { firstMs: 1, everyMs: LONG_MS })
  await eventually('once', () => diagnostics.told.length === 1)
  await Bun.sleep(60)
  pages.close()
  expect(diagnostics.told).toHaveLength(1)
})

test('one that is closed before lets go of nothing', async () => {
  const diagnostics = listening()
  letGoWhenWarm(diagnostics, { firstMs: 1, everyMs: 20 }).close()
  await Bun.sleep(60)
  expect(diagnostics.told).toEqual([])
})
