import { expect, test } from 'bun:test'
import { Grace, Stack } from '../../src/composition/shutdown-stack.ts'
import { createDiagnostics, type Diagnostics } from '../../src/lib/process/diagnostics.ts'

const noted = (into: string[]): Diagnostics =>
  createDiagnostics({
    level: 'error',
    readable: false,
    nowMs: Date.now,
    write: (line) => void into.push(JSON.parse(line).step),
  })

test('each step has the time that it asked for, and the one below it waits for it', async () => {
  const ended: string[] = []
  const stack = new Stack(noted(ended))
  stack.push('spool', () => void ended.push('spool ended'))
  stack.push('too slow', () => new Promise(() => {}), 10)
  stack.push(
    'requests',
    async () => {
      await new Promise(setImmediate)
      ended.push('requests ended')
    },
    5_000,
  )
  await Promise.all([stack.stop(), stack.stop()])
  expect(ended).toEqual(['requests ended', 'too slow', 'spool ended'])
})

// docs/behaviour.md: "Stopping"
test('the grace of a stop can be skipped once, before and while it passes', async () => {
  const early = new Grace(60_000)
  expect([early.skip(), early.skip()]).toEqual([true, false])
  await early.pass()
  const late = new Grace(60_000)
  const passed = late.pass()
  expect(late.skip()).toBe(true)
  await passed
  expect(late.skip()).toBe(false)
})

test('without a grace, or after it, there is nothing to skip', async () => {
  expect(new Grace(0).skip()).toBe(false)
  const short = new Grace(1)
  await short.pass()
  expect(short.skip()).toBe(false)
})
