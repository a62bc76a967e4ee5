// One start on a log of many keys, run by `keys.ts`: `bun tests/bench/keys/keys-process.ts DATA_DIR KEYS log|snapshot
// [BYTES]`.
// BYTES: memory of a process that started on a log of hardly any keys. Without it, this process is that reference and
// prints only its own bytes.

import { heapStats } from 'bun:jsc'
import { stat } from 'node:fs/promises'
import { decideApiKey } from '../../../src/domain/access/api-key.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { LOG_MODULE, openLog } from '../../../src/log/open-log.ts'
import { createCommit } from '../../../src/state/commit/queue.ts'
import { snapshotPath } from '../../../src/state/history/snapshot.ts'
import { startSnapshots } from '../../../src/state/history/snapshot-thread.ts'
import { openKeyIndex } from '../../../src/state/indexes/api-keys.ts'
import { openLimitRules } from '../../../src/state/indexes/limit-rules.ts'
import { openLiveState } from '../../../src/state/live/live.ts'
import { actor, macKey, nowMs, quiet } from '../../state/support.ts'
import { type Stillness, stillness } from '../stillness.ts'

const AIM = { bytes: 200, lookupNs: 2_000, stillMs: 50 }
const LOOKUPS = 200_000
const [dataDir = '', keys = '0', from = 'log', base = ''] = process.argv.slice(2)
const count = Number(keys)
const granter = { scopes: ['*'] }

/** What is left once the allocators have given back what the start needed, which takes them some seconds. */
const residentBytes = async () => {
  for (let second = 0; second < 4; second++) {
    Bun.gc(true)
    await Bun.sleep(1_000)
  }
  return process.memoryUsage.rss()
}
const mb = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`
const say = (what: string, figure: string, good: boolean | null = null) => {
  if (good === false) process.exitCode = 1
  console.log(`  ${what.padEnd(66)} ${figure}${good === null ? '' : good ? ' (as aimed)' : ' (MISSED)'}`)
}

const logOptions = { adapter: 'embedded', dataDir, retentionMs: 60_000 } as const
const log = openLog(logOptions)
const startMs = performance.now()
const live = await openLiveState({ log, macKey, dataDir: from === 'log' ? null : dataDir, nowMs, diagnostics: quiet })
await live.ready()
const index = openKeyIndex(live)
openLimitRules(live)
const tookMs = performance.now() - startMs
const resident = await residentBytes()
if (base === '') {
  console.log(resident)
  process.exit(0)
}
const bytes = resident - Number(base)
const table = live.control.table('keys')
const { heapSize, extraMemorySize } = heapStats()

console.log(`started from the ${from}`)
say('time', `${(tookMs / 1_000).toFixed(2)} s`)
say(
  'memory of the process beyond that of one with hardly any keys',
  `${mb(bytes)}, ${(bytes / count).toFixed(0)} bytes a key (aim: under ${AIM.bytes})`,
  bytes / count < AIM.bytes,
)
say('heap of the thread after a collection', `${mb(heapSize)}, of it buffers ${mb(extraMemorySize)}`)

/** So many secrets of keys, none of which comes twice among a million. */
const secrets = (from: number) =>
  Array.from({ length: LOOKUPS }, (_, number) => `secret ${((from + number) * 7_919) % count}`)
const digests = secrets(0).map(sha256Hex)
/** CPU time of all threads for each, in nanoseconds. */
const timed = (texts: readonly string[], look: (text: string) => unknown): number => {
  const cpu = process.cpuUsage()
  for (const text of texts) if (look(text) === null) throw new Error('a key is not found')
  const { user, system } = process.cpuUsage(cpu)
  return ((user + system) / texts.length) * 1e3
}
const lookUp = (digests: readonly string[]): number => timed(digests, (digest) => index.lookup(digest))
lookUp(secrets(LOOKUPS).map(sha256Hex)) // other keys: it is them that are to be cold, not the code
const coldNs = lookUp(digests)
say(
  'look-up of a key that was not looked up lately',
  `${coldNs.toFixed(0)} ns of CPU (aim: under ${AIM.lookupNs})`,
  coldNs < AIM.lookupNs,
)
const sent = secrets(2 * LOOKUPS)
timed(sent, sha256Hex)
say(
  'the same of another, with the SHA-256 of the key that was sent',
  `${timed(sent, (secret) => index.lookup(sha256Hex(secret))).toFixed(0)} ns of CPU`,
)
say('that SHA-256 alone', `${timed(sent, sha256Hex).toFixed(0)} ns of CPU`)
const few = digests.slice(0, 4_000)
for (let times = 0; times < 3; times++) lookUp(few)
say('of one that was', `${lookUp([few, few, few, few, few].flat()).toFixed(0)} ns of CPU`)

const commits = createCommit({ log, live, macKey, nowMs, diagnostics: quiet, instance: 'bench' })
const ids: string[] = []
for (const [id] of table.rows()) if (ids.push(id) === 4_000) break
let changed = 0
/** Requests as they come: keys are looked up, some are renamed. */
const serve = async (until: () => boolean) => {
  while (!until()) {
    const id = ids[changed++ % ids.length]!
    lookUp(digests.slice((changed * 10) % 1_000, ((changed * 10) % 1_000) + 10))
    await commits.commit({
      actor,
      decide: (state) =>
        decideApiKey(state, { do: 'change', granter, managed_by: 'api', id, name: `renamed ${changed}` }),
    })
  }
}
const tell = (what: string, { tookMs, stillMs }: Stillness, good: boolean | null) =>
  say(what, `still for ${stillMs.toFixed(1)} ms at most, over ${(tookMs / 1_000).toFixed(1)} s`, good)

const aloneUntilMs = performance.now() + 3_000
tell('keys looked up and renamed', await stillness(() => serve(() => performance.now() > aloneUntilMs)), null)
if (from === 'log') {
  let written: { readonly tookMs: number } | null = null
  const thread = startSnapshots({
    ...LOG_MODULE,
    logOptions,
    macKey,
    dataDir,
    diagnostics: quiet,
    onWritten: (snapshot) => {
      written = snapshot
    },
  })
  const still = await stillness(() => serve(() => written !== null))
  tell(
    `the same while a thread folds and writes a snapshot (aim: ${AIM.stillMs} ms)`,
    still,
    still.stillMs < AIM.stillMs,
  )
  const { size } = await stat(snapshotPath(dataDir))
  say(
    'that snapshot',
    `${mb(size)}, written in ${((written as { readonly tookMs: number } | null)?.tookMs ?? 0) / 1_000} s`,
  )
  say('memory once the thread has let go of what it wrote', mb((await residentBytes()) - Number(base)))
  await thread.stop()
}
await commits.close()
await live.close()
await log.close()
