// A reader that waits is told of every commit, whoever made it, and of nothing else.
import { Database } from 'bun:sqlite'
import { afterAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { commitWatch } from '../../src/log/commit-watch.ts'
import { temporaryFolder } from './support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())

const opened = (path: string): Database => {
  const database = new Database(path, { create: true, readwrite: true })
  database.run('PRAGMA journal_mode = WAL')
  return database
}

/** Another process, which leaves the file to those that have it open. */
const elsewhere = (path: string, sql: string) => {
  const code = `import { Database } from 'bun:sqlite'; const it = new Database(process.argv[1]); it.run(process.argv[2]); it.close()`
  const { exitCode } = Bun.spawnSync([process.execPath, '-e', code, path, sql])
  expect(exitCode).toBe(0)
}

test.each([
  ['by the head of the index', (path: string) => path],
  ['by the version, where the index cannot be mapped', (path: string) => `${path}-not-mapped`],
])('%s', (name, mapped) => {
  const path = join(folder.path, `${name.length}.sqlite`)
  const reader = opened(path)
  reader.run('CREATE TABLE log (record)')
  const committed = commitWatch(reader, mapped(path))
  expect([committed(), committed()]).toEqual([true, false])
  for (let turn = 0; turn < 3; turn++) {
    elsewhere(path, 'INSERT INTO log VALUES (1)')
    expect([committed(), committed()]).toEqual([true, false])
    reader.query('SELECT count(*) FROM log').get()
    expect(committed()).toBe(false)
  }
  // The log begins anew after a checkpoint that empties it: still seen.
  reader.run('PRAGMA wal_checkpoint(TRUNCATE)')
  committed()
  elsewhere(path, 'INSERT INTO log VALUES (2)')
  expect([committed(), committed()]).toEqual([true, false])
  reader.close()
})
