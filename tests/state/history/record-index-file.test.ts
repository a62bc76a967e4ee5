import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { memoryLog } from '../../../src/log/memory.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { LogHistory } from '../../../src/state/history/history.ts'
import type { LogPage } from '../../../src/state/history/history-port.ts'
import { macKey } from '../support.ts'
import { writeChain } from '../written-chain.ts'

const RECORDS = 10_200
const dataDir = await mkdtemp(join(tmpdir(), 'gatelog-survey-'))
afterAll(() => rm(dataDir, { recursive: true, force: true }))

/** A log that counts what is read of it. */
const counted = (log: EventLog) => {
  const seen = { records: 0 }
  const read: EventLog['read'] = async function* (topic, partition, from, signal) {
    for await (const batch of log.read(topic, partition, from, signal)) {
      seen.records += batch.length
      yield batch
    }
  }
  return { seen, log: { ...log, end: log.end.bind(log), read } as EventLog }
}

/** The first page that a process answers after its start, and how many records it read for it. */
const firstPage = async (log: EventLog, writes = true) => {
  const { seen, log: counting } = counted(log)
  const { signal } = new AbortController()
  const checkpoints = { before: async () => null }
  const history = new LogHistory({
    log: counting,
    macKey,
    checkpoints,
    indexStore: { dataDir, writes },
    signal,
    readPast: () => null,
  })
  const page = (await history.answer({ name: 'page', before: null, skip: 0, limit: 3 })) as LogPage
  const offsets = page.entries.map(({ offset, verdict }) => `${offset} ${verdict}`)
  return { offsets, read: seen.records }
}
const newest = (end: number) => [end - 1, end - 2, end - 3].map((offset) => `${offset} counted`)

describe('the survey that is kept', () => {
  const log = memoryLog({ nowMs: Date.now })

  test('spares the next start the reading of what was surveyed', async () => {
    await writeChain(log, RECORDS)
    const first = await firstPage(log)
    expect(first.offsets).toEqual(newest(RECORDS))
    expect(first.read).toBeGreaterThanOrEqual(RECORDS)
    expect(await readdir(join(dataDir, 'history'))).toEqual(['survey'])
    await writeChain(log, 50)
    const second = await firstPage(log)
    expect(second.offsets).toEqual(newest(RECORDS + 50))
    expect(second.read).toBeLessThan(1_000)
  })

  test('is not used when it is damaged, nor for another log', async () => {
    const other = memoryLog({ nowMs: Date.now })
    await writeChain(other, RECORDS + 50, 5)
    const ofOther = await firstPage(other, false)
    expect(ofOther.offsets).toEqual(newest(RECORDS + 50))
    expect(ofOther.read).toBeGreaterThanOrEqual(RECORDS)
    const path = join(dataDir, 'history', 'survey')
    const bytes = new Uint8Array(await Bun.file(path).arrayBuffer())
    bytes[bytes.length - 40]! ^= 1
    await Bun.write(path, bytes)
    const afterDamage = await firstPage(log, false)
    expect(afterDamage.offsets).toEqual(newest(RECORDS + 50))
    expect(afterDamage.read).toBeGreaterThanOrEqual(RECORDS)
  })
})
