// docs/behaviour.md: "Starting"
// The request path is compiled before a process is ready, and nothing of it stays.
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startWarmUp } from '../../src/composition/warm-up/warm-up.ts'
import { loadConfig } from '../../src/config/schema.ts'
import { createDiagnostics } from '../../src/lib/process/diagnostics.ts'

const folder = mkdtempSync(join(tmpdir(), 'gatelog-warm-up-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const warmUpIn = async (dir: string, listener: 'own' | 'bun', primary = true) => {
  const { config } = loadConfig({
    file: null,
    env: { GATEWAY_DATA_DIR: dir, GATEWAY_SERVER_LISTENER: listener },
  })
  const noted: Record<string, unknown>[] = []
  const write = (line: string) => void noted.push(JSON.parse(line) as Record<string, unknown>)
  const diagnostics = createDiagnostics({ level: 'debug', readable: false, nowMs: Date.now, write })
  const warmUp = startWarmUp({ config, diagnostics, primary })
  const wasDone = warmUp.isDone()
  await warmUp.ended
  return { noted, wasDone, isDone: warmUp.isDone() }
}

describe.each(['own', 'bun'] as const)('with the listener %s', (listener) => {
  test('completions go through the whole path, and what they wrote is removed', async () => {
    const dir = join(folder, listener)
    mkdirSync(join(dir, 'warm-up', 'of-a-killed-start'), { recursive: true })
    const { noted, wasDone, isDone } = await warmUpIn(dir, listener)
    expect([wasDone, isDone]).toEqual([false, true])
    expect(noted.map(({ event }) => event)).toEqual(['warmed_up'])
    expect(noted[0]!.requests).toBeGreaterThan(0)
    expect(readdirSync(dir)).toEqual([])
  })
})

test('a sibling removes its own folder only', async () => {
  const dir = join(folder, 'shared')
  mkdirSync(join(dir, 'warm-up', 'of-another'), { recursive: true })
  await warmUpIn(dir, 'own', false)
  expect(readdirSync(join(dir, 'warm-up'))).toEqual(['of-another'])
})

test('one that cannot run is reported, and the start goes on', async () => {
  const dir = join(folder, 'a-file')
  writeFileSync(dir, '')
  const { noted, isDone } = await warmUpIn(dir, 'own')
  expect(isDone).toBe(true)
  expect(noted).toMatchObject([{ event: 'not_warmed_up', level: 'warn' }])
  expect(existsSync(dir)).toBe(true)
})
