// Shared topics of the embedded log whose files are damaged. The tests in tests/contract cover the other promises of
// these topics.
import { Database } from 'bun:sqlite'
import { afterAll, expect, spyOn, test } from 'bun:test'
import { closeSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { embeddedLog } from '../../../src/log/embedded/log.ts'
import { openFile } from '../../../src/log/embedded/sqlite-file.ts'
import { SqliteTopic } from '../../../src/log/embedded/sqlite-log.ts'
import { nodeFiles } from '../../../src/log/files.ts'
import { IndefiniteAppend, LogDamaged } from '../../../src/log/port.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { temporaryFolder } from '../support.ts'

const CONTROL = TOPICS.control.name
const folder = temporaryFolder()
afterAll(() => folder.remove())

const PAGE_BYTES = 4_096
const overwritePage = (path: string, page: number) => {
  const file = openSync(path, 'r+')
  writeSync(file, Buffer.alloc(PAGE_BYTES, 'x'), 0, PAGE_BYTES, page * PAGE_BYTES)
  closeSync(file)
}

test.each([
  ['the first page', 0],
  ['the page of the table', 1],
])('%s overwritten: damaged, with the file and what to do; not an outage to wait for', async (_, page) => {
  const dataDir = join(folder.path, `page-${page}`)
  const written = embeddedLog({ dataDir, nowMs: Date.now })
  await written.append(CONTROL, 0, [{ key: null, value: Buffer.from('one') }])
  await written.close()
  const path = join(dataDir, 'log', `${CONTROL}.sqlite`)
  overwritePage(path, page)
  const log = embeddedLog({ dataDir, nowMs: Date.now })
  const firstRead = async () => {
    for await (const batch of log.read(CONTROL, 0, 0, AbortSignal.timeout(5_000))) return batch
    return null
  }
  const failures = await Promise.all([
    log.end(CONTROL, 0).catch((error: unknown) => error),
    log.append(CONTROL, 0, [{ key: null, value: Buffer.from('two') }]).catch((error: unknown) => error),
    firstRead().catch((error: unknown) => error),
  ])
  for (const failure of failures) {
    expect(failure).toBeInstanceOf(LogDamaged)
    expect((failure as Error).message).toMatch(
      /control\.v1\.sqlite is damaged .*: restore gateway\.control\.v1\.sqlite\* of that folder/,
    )
  }
  expect(log.health()).toMatchObject({ ok: false, detail: expect.stringContaining('is damaged') })
  await log.close()
  rmSync(dataDir, { recursive: true })
})

test('when only the checkpoint fails, nobody is told that nothing was written', async () => {
  const topic = new SqliteTopic({
    path: join(folder.path, 'keys.sqlite'),
    compacted: true,
    synced: true,
    files: nodeFiles,
    retentionMs: null,
    nowMs: Date.now,
    random: Math.random,
  })
  await topic.append(0, [{ key: 'dek_1', value: Buffer.from('wrapped') }])
  const real = Database.prototype.query
  const failing = function (this: Database, sql: string) {
    if (sql.includes('wal_checkpoint')) throw new Error('disk I/O error')
    return real.call(this, sql)
  }
  const query = spyOn(Database.prototype, 'query').mockImplementation(failing as typeof real)
  try {
    await expect(topic.append(0, [{ key: 'dek_1', value: null }])).rejects.toBeInstanceOf(IndefiniteAppend)
  } finally {
    query.mockRestore()
  }
  expect(await topic.end(0)).toBe(2)
  topic.close()
})

test('an append waits for the disk, unless its topic says that a power cut may take it', () => {
  // 2 is FULL, 1 NORMAL: https://www.sqlite.org/pragma.html#pragma_synchronous
  for (const [synced, level] of [
    [true, 2],
    [false, 1],
  ] as const) {
    const database = openFile({ path: join(folder.path, `synced-${synced}.sqlite`), compacted: false, synced })
    expect(database.query<{ synchronous: number }, []>('PRAGMA synchronous').get()?.synchronous).toBe(level)
    database.close()
  }
})
