import { expect, test } from 'bun:test'
import { CONTROL } from '../../../src/state/fold.ts'
import { openLiveState } from '../../../src/state/live/live.ts'
import { controlBatches } from '../../../src/state/read-ahead/reader.ts'
import { RECENT_RECORDS } from '../../../src/state/restore/recent-records.ts'
import { sharedBroker, testTopics } from '../../services/kafka.ts'
import { openRaceLog } from '../commit/race-writer.ts'
import { begin, macKey, nowMs, quiet } from '../support.ts'
import { writeChain } from '../written-chain.ts'

test('a long log on a real broker: read ahead by a thread, folded to the same state', async () => {
  const { bootstrap } = await sharedBroker()
  const topics = testTopics(bootstrap)
  const topic = await topics.create()
  const logOptions = { adapter: 'kafka', brokers: bootstrap, topic } as const
  const log = openRaceLog(logOptions)
  try {
    await begin(log)
    await writeChain(log, RECENT_RECORDS + 3_000)
    const logModule = import.meta.resolve('../commit/race-writer.ts')
    const ahead = { logModule, logFactory: 'openRaceLog', logOptions, fromRecords: 1_000 }
    const deps = { log, macKey, nowMs, diagnostics: quiet }
    const statusOf = async (more: { readonly ahead?: typeof ahead }) => {
      const live = await openLiveState({ ...deps, ...more, dataDir: null })
      await live.ready()
      const { staleMs: _, ...status } = live.status()
      await live.close()
      return status
    }
    expect(await statusOf({ ahead })).toEqual(await statusOf({}))
    let read = 0
    for await (const batch of controlBatches({ ...deps, readAhead: ahead }, 0, 3_000, new AbortController().signal)) {
      read += batch.filter((record) => 'decision' in record).length
      if (batch.at(-1)!.offset >= 3_000) break
    }
    // The first third is read while the thread starts.
    expect(read).toBe(2_000)
    expect(await log.end(CONTROL, 0)).toBe(RECENT_RECORDS + 3_001)
  } finally {
    await log.close()
    await topics.remove(topic)
    topics.close()
  }
}, 60_000)
