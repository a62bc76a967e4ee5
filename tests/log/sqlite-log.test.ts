import { Database } from 'bun:sqlite'
import { expect, spyOn, test } from 'bun:test'
import { join } from 'node:path'
import { IndefiniteAppend } from '../../src/log/port.ts'
import { SqliteTopic } from '../../src/log/sqlite-log.ts'
import { temporaryFolder } from './support.ts'

test('when only the checkpoint fails, nobody is told that nothing was written', async () => {
  const folder = temporaryFolder()
  const topic = new SqliteTopic({
    path: join(folder.path, 'keys.sqlite'),
    compacted: true,
    retentionMs: null,
    nowMs: Date.now,
    random: Math.random,
  })
  await topic.append(0, [{ key: 'dek_1', value: Buffer.from('wrapped') }])
  const real = Database.prototype.run
  const run = spyOn(Database.prototype, 'run').mockImplementation(function (this: Database, sql: string) {
    if (sql.includes('wal_checkpoint')) throw new Error('disk I/O error')
    return real.call(this, sql)
  })
  try {
    await expect(topic.append(0, [{ key: 'dek_1', value: null }])).rejects.toBeInstanceOf(IndefiniteAppend)
  } finally {
    run.mockRestore()
  }
  expect(await topic.end(0)).toBe(2)
  topic.close()
  folder.remove()
})
