// Closed days without a broker: segments of the requests are deleted as retention does, Postgres is dropped, and the
// totals are the same.
import { expect, test } from 'bun:test'
import { unlinkSync } from 'node:fs'
import { embeddedLog } from '../../../src/log/embedded/log.ts'
import { listSegments } from '../../../src/log/segments/writer.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { openTestSpool } from '../../log/support.ts'
import { closedAfterEach } from '../../services/closing.ts'
import { testStore } from '../store.ts'
import { ALL_REQUESTS, EVERY_DAY, madeOf, outcomes, REQUESTS_A_DAY } from './closed-days.ts'

const closing = closedAfterEach()
const store = testStore()

test('a rebuild after segments have expired gives the same totals', async () => {
  const dataDir = closing.folder()
  const spool = await openTestSpool(dataDir, { segmentBytes: 16_384 })
  for (const outcome of outcomes()) await spool.append('requests', 'request.settled', 'ten_1', JSON.stringify(outcome))
  const log = embeddedLog({ dataDir, nowMs: Date.now, spoolPollMs: 2 })
  const before = await madeOf(store, log)
  expect(before.held).toBe(ALL_REQUESTS)
  expect(before.usage.series.map(({ requests }) => requests)).toEqual(EVERY_DAY)
  let { held } = before
  for (;;) {
    const segments = listSegments(spool.directory)
    if (segments.length < 2) break
    unlinkSync(segments[0]!.path)
    await store.empty()
    const after = await madeOf(store, log)
    expect(after.usage).toEqual(before.usage)
    expect(after.held).toBeLessThan(held)
    held = after.held
  }
  expect(held).toBeLessThan(REQUESTS_A_DAY)
  expect(await log.end(TOPICS.usage.name, 0)).toBeGreaterThanOrEqual(EVERY_DAY.length)
  await spool.close()
  await log.close()
}, 60_000)
