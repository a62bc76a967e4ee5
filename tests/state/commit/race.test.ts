import { expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { raceProcesses } from './race-processes.ts'

test('three processes on the embedded log, one of them killed', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'gatelog-race-'))
  try {
    const { counted, records } = await raceProcesses({ adapter: 'embedded', dataDir }, { commands: 150, atOnce: 5 })
    expect(records).toBeGreaterThan(counted) // there was a race: some appends lost
  } finally {
    await rm(dataDir, { recursive: true })
  }
}, 60_000)
