// Measures time and memory of folding a million decisions without a snapshot: `bun tests/bench/long-logs/fold.ts
// [decisions]`.
// Writes the log, then starts on it in a separate process as a gateway does: the live state from the log, and the index
// of keys.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { embeddedLog } from '../../../src/log/embedded/log.ts'
import { LOG_MODULE } from '../../../src/log/open-log.ts'
import { openKeyIndex } from '../../../src/state/indexes/api-keys.ts'
import { openLiveState } from '../../../src/state/live/live.ts'
import { macKey, quiet } from '../../state/support.ts'
import { writeMixedChain } from './mixed-chain.ts'

const AIM_MS_OF_A_MILLION = 10_000
const [given = '1000000', folder] = process.argv.slice(2)
const count = Number(given)
const mb = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`

const fold = async (dataDir: string): Promise<void> => {
  const log = embeddedLog({ dataDir, nowMs: Date.now })
  const emptyBytes = process.memoryUsage.rss()
  const startMs = performance.now()
  const ahead = { ...LOG_MODULE, logOptions: { adapter: 'embedded', dataDir, retentionMs: null } }
  const live = await openLiveState({
    log,
    macKey,
    dataDir: null,
    nowMs: Date.now,
    diagnostics: quiet,
    readAhead: ahead,
  })
  await live.ready()
  openKeyIndex(live)
  const tookMs = performance.now() - startMs
  const { user, system } = process.cpuUsage()
  const { maxRSS } = process.resourceUsage()
  Bun.gc(true)
  const leftBytes = process.memoryUsage.rss()
  const { counts, digest } = live.status()
  const aimMs = (AIM_MS_OF_A_MILLION * count) / 1e6
  console.log(`${counts.counted} decisions folded, embedded log, Bun ${Bun.version}`)
  console.log(
    `time: ${(tookMs / 1e3).toFixed(2)} s, ${((tookMs * 1e3) / count).toFixed(2)} us each (aim: ` +
      `under ${aimMs / 1e3} s); CPU ${((user + system) / 1e6).toFixed(2)} s`,
  )
  console.log(`memory: ${mb(maxRSS * 1024)} at most, ${mb(leftBytes)} after a collection, ${mb(emptyBytes)} before`)
  console.log(
    `state: ${live.control.table('keys').size} keys, ` +
      `${live.control.table('causes').size} remembered repeats, digest ` +
      `${digest.slice(0, 16)}`,
  )
  if (counts.counted !== count || counts.malformed > 0) throw new Error('not every decision counted')
  if (tookMs > aimMs) process.exitCode = 1
  await live.close()
  await log.close()
}

if (folder !== undefined) await fold(folder)
else {
  const dataDir = await mkdtemp(join(tmpdir(), 'gatelog-bench-fold-'))
  try {
    await writeMixedChain(dataDir, count, macKey)
    const command = [process.execPath, import.meta.path, given, dataDir]
    process.exitCode = await Bun.spawn(command, { stdout: 'inherit', stderr: 'inherit' }).exited
  } finally {
    await rm(dataDir, { recursive: true, force: true })
  }
}
