// The command `gateway log restore`, with settings, a data folder and the embedded log. On a real broker:
// tests/faults/control/lost-log.ts.
import { Database } from 'bun:sqlite'
import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { logRestoreCommand } from '../../src/commands/log.ts'
import { loadConfig } from '../../src/config/schema.ts'
import { embeddedLog } from '../../src/log/embedded/log.ts'
import { CONTROL, foldAgain } from '../../src/state/fold.ts'
import { storeRecords } from '../../src/state/restore/record-keeper.ts'
import { begin, createTenant, macKey, nowMs, openInstance, quiet } from '../state/support.ts'

const folders: string[] = []
afterEach(() => {
  for (const path of folders.splice(0)) rmSync(path, { recursive: true, force: true })
})

/** A data folder with ten decisions in it, and what its log ended with. */
const used = async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'gatelog-log-restore-'))
  folders.push(dataDir)
  const log = embeddedLog({ dataDir, nowMs })
  await begin(log)
  const instance = await openInstance('a', log, { dataDir })
  const stored = storeRecords({ live: instance.live, dataDir, diagnostics: quiet })
  await instance.live.ready()
  for (let n = 0; n < 9; n++) await instance.queue.commit(createTenant(`t${n}`))
  const { tip } = instance.live
  stored.stop()
  await instance.close()
  await log.close()
  return { dataDir, tip }
}

const cut = (dataDir: string, from: number) => {
  const database = new Database(join(dataDir, 'log', `${CONTROL}.sqlite`))
  database.run('DELETE FROM p0 WHERE offset >= ?', [from])
  database.close()
}

const run = async (dataDir: string, dryRun: boolean) => {
  const lines: string[] = []
  const complaints: string[] = []
  const { config } = loadConfig({ file: null, env: { GATEWAY_DATA_DIR: dataDir } })
  const log = embeddedLog({ dataDir, nowMs })
  try {
    const code = await logRestoreCommand({
      config,
      macKey,
      log,
      dryRun,
      signal: new AbortController().signal,
      print: (line) => lines.push(line),
      complain: (line) => complaints.push(line),
    })
    const { tip, next } = await foldAgain(log, macKey, new AbortController().signal)
    return { code, printed: lines.join('\n'), complained: complaints.join('\n'), tip, next }
  } finally {
    await log.close()
  }
}

test('a log that was cut: a dry run says what is missing, the run appends it, a further one finds it whole', async () => {
  const { dataDir, tip } = await used()
  expect(await run(dataDir, false)).toMatchObject({ code: 0, tip, next: 10 })
  cut(dataDir, 4)
  const dry = await run(dataDir, true)
  expect(dry).toMatchObject({ code: 0, next: 4, complained: '' })
  expect(dry.printed).toContain('lost 6 records, 6 decisions')
  expect(await run(dataDir, false)).toMatchObject({ code: 0, tip, next: 10, complained: '' })
  const again = await run(dataDir, false)
  expect(again).toMatchObject({ code: 0, tip, next: 10 })
  expect(again.printed).toContain('holds all of them')
})

test('a log that is empty gets its whole chain back', async () => {
  const { dataDir, tip } = await used()
  cut(dataDir, 0)
  expect(await run(dataDir, false)).toMatchObject({ code: 0, tip, next: 10 })
})

test('a log that went another way is refused in one line, and nothing is appended', async () => {
  const { dataDir } = await used()
  cut(dataDir, 4)
  const log = embeddedLog({ dataDir, nowMs })
  const other = await openInstance('b', log)
  await other.live.ready()
  await other.queue.commit(createTenant('other'))
  await other.close()
  await log.close()
  const refused = await run(dataDir, false)
  expect(refused).toMatchObject({ code: 1, next: 5 })
  expect(refused.complained).toStartWith('nothing was appended: gateway.control.v1 went another way')
})
