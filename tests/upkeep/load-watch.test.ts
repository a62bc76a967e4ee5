// How much of its time the main thread rests, told from what the kernel counts of it.
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { idleWatch } from '../../src/upkeep/load-watch.ts'

const folder = mkdtempSync(join(tmpdir(), 'gatelog-load-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('time in which the thread waited for a processor is no rest', () => {
  const path = join(folder, 'schedstat')
  const clock = { ms: 1_000 }
  const counted = (ranMs: number, waitedMs: number) => writeFileSync(path, `${ranMs * 1e6} ${waitedMs * 1e6} 7\n`)
  counted(500, 300)
  const idle = idleWatch(() => clock.ms, path)
  const after = (elapsedMs: number, ranMs: number, waitedMs: number): number => {
    clock.ms += elapsedMs
    counted(ranMs, waitedMs)
    return idle()
  }
  expect(after(100, 600, 300)).toBe(0)
  expect(after(100, 620, 300)).toBeCloseTo(0.8)
  expect(after(100, 640, 360)).toBeCloseTo(0.5)
  expect(after(100, 660, 440)).toBe(0)
  expect(after(100, 670, 550)).toBe(0) // counted a moment later than the clock was read
})

test('where the kernel does not say it, the thread counts as busy', () => {
  expect(idleWatch(() => 0, join(folder, 'none'))()).toBe(0)
})
