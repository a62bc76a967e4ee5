import { afterAll, expect, test } from 'bun:test'
import { spoolDirectory, spoolNumbers } from '../../../src/log/spool/directory.ts'
import { adoptFreeSpools } from '../../../src/log/spool/open.ts'
import { openTestSpool, readAll, startProcess, temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())

/** Kills a process once it acknowledged some records; all that it acknowledged. */
const killUnderLoad = async (dataDir: string, durability: string, acknowledged: number): Promise<string[]> => {
  const running = startProcess('appender.ts', dataDir, durability, '100000')
  const lines: string[] = []
  while (lines.length < acknowledged) lines.push((await running.line()) ?? 'ended')
  await running.kill()
  return [...lines, ...(await running.rest())].filter((line) => !line.startsWith('spool'))
}

test('kill -9 of processes that append, again and again: every acknowledged record is there, every open admission is known', async () => {
  const dataDir = folder.path
  const acknowledged: string[] = []
  for (let round = 0; round < 6; round++) {
    const durability = round % 3 === 2 ? 'host' : 'process'
    const lines = await Promise.all([
      killUnderLoad(dataDir, durability, 150 + 400 * round),
      killUnderLoad(dataDir, durability, 300),
    ])
    acknowledged.push(...lines.flat())
  }
  expect(spoolNumbers(dataDir)).toEqual([0, 1])

  const found = spoolNumbers(dataDir).flatMap((number) => readAll(spoolDirectory(dataDir, number)).records)
  const ids = new Set(found.map((record) => `${record.instance}.${record.epoch}.${record.sequence}`))
  expect(ids.size).toBe(found.length)
  const lost = acknowledged.filter((line) => !ids.has(line.split(' ')[0]!))
  console.log(`kill -9 of 12 appending processes: ${acknowledged.length} records acknowledged, ${lost.length} lost`)
  expect(acknowledged.length).toBeGreaterThan(5_000)
  expect(lost).toEqual([])

  const own = await openTestSpool(dataDir)
  const adopted = await adoptFreeSpools({
    dataDir,
    durability: 'process',
    keeping: { until: 'shipped' },
    nowMs: Date.now,
  })
  expect([own.number, ...adopted.map((spool) => spool.number)]).toEqual([0, 1])
  const settled = new Set(
    found
      .filter((record) => record.type === 'request.settled')
      .map((record) => (JSON.parse(record.data) as { admission: string }).admission),
  )
  const admitted = found.filter((record) => record.type === 'request.admitted')
  const open = admitted
    .map((record) => `${record.instance}.${record.epoch}.${record.sequence}`)
    .filter((id) => !settled.has(id))
  expect(open.length).toBeGreaterThan(100)
  const known = [own, ...adopted].flatMap((spool) => spool.openAtStart.map((admission) => admission.recordId))
  expect(known.sort()).toEqual(open.sort())
  for (const spool of [own, ...adopted]) await spool.close()
}, 60_000)
