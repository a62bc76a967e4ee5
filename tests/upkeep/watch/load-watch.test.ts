// For how long the main thread runs and rests, told from what the kernel counts of it.
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { relievedMemory, threadTimes, watchLoad } from '../../../src/upkeep/watch/load-watch.ts'

const folder = mkdtempSync(join(tmpdir(), 'gatelog-load-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('time in which the thread waited for a processor is no rest', () => {
  const path = join(folder, 'schedstat')
  const clock = { ms: 1_000 }
  const counted = (ranMs: number, waitedMs: number) => writeFileSync(path, `${ranMs * 1e6} ${waitedMs * 1e6} 7\n`)
  counted(500, 300)
  const times = threadTimes(() => clock.ms, path)
  const after = (elapsedMs: number, ranMs: number, waitedMs: number) => {
    clock.ms += elapsedMs
    counted(ranMs, waitedMs)
    return times.since()
  }
  expect(after(100, 600, 300)).toEqual({ ranMs: 100, idleMs: 0 })
  expect(after(100, 620, 300)).toEqual({ ranMs: 20, idleMs: 80 })
  expect(after(100, 640, 360)).toEqual({ ranMs: 20, idleMs: 20 })
  expect(after(100, 670, 470)).toEqual({ ranMs: 30, idleMs: 0 }) // counted a moment later than the clock was read
  times.close()
  expect(times.since()).toBeUndefined()
})

test('what is watched is closed, once', () => {
  if (process.platform !== 'linux') return
  const opened = () =>
    readdirSync('/proc/self/fd').filter((number) => {
      try {
        return readlinkSync(`/proc/self/fd/${number}`).endsWith('/schedstat')
      } catch {
        return false // that of the folder itself
      }
    }).length
  const watch = watchLoad({ maxDelayMs: null, maxMemoryBytes: null }, { drop: () => 0 })
  expect(opened()).toBe(1)
  watch.close()
  expect(opened()).toBe(0)
  expect(watch.close).not.toThrow()
})

test('where the kernel does not say it, nothing is said', () => {
  expect(threadTimes(() => 0, join(folder, 'none')).since()).toBeUndefined()
})

test('S42: above the bound spare memory is dropped before the memory counts, and not again at once', () => {
  let [nowMs, resident, spare, collected] = [0, 100, 40, 0]
  const drop = () => {
    const dropped = spare
    spare = 0
    return dropped
  }
  const ports = {
    nowMs: () => nowMs,
    residentBytes: () => resident + spare,
    collect: () => void collected++,
  }
  const bytes = relievedMemory({ drop }, 120, ports)
  expect([bytes(), spare, collected]).toEqual([100, 0, 1])
  spare = 40
  nowMs = 9_000
  expect([bytes(), spare, collected]).toEqual([140, 40, 1])
  nowMs = 10_000
  expect([bytes(), spare, collected]).toEqual([100, 0, 2])
  // What is not spare is not collected for.
  resident = 200
  nowMs = 30_000
  expect([bytes(), collected]).toEqual([200, 2])
  resident = 50
  spare = 60
  expect([bytes(), spare]).toEqual([110, 60])
  expect(relievedMemory({ drop }, null, ports)()).toBe(110)
})
