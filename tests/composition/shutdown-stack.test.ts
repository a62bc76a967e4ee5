import { expect, test } from 'bun:test'
import { Stack } from '../../src/composition/shutdown-stack.ts'
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
