// Measures what a long history costs: pages of the log, states of the past, and how long the serving thread is blocked
// meanwhile.
// `bun tests/bench/long-logs/history.ts [--decisions 100000]`
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LOG_MODULE, openLog } from '../../../src/log/open-log.ts'
import { HistoryUnavailable, type QuestionName, type Questions } from '../../../src/state/history/history-port.ts'
import { startSnapshots } from '../../../src/state/history/snapshot-thread.ts'
import { numberArgument } from '../../faults/control/figures.ts'
import { macKey, quiet } from '../../state/support.ts'
import { writeChain } from '../../state/written-chain.ts'
import { type Stillness, stillness } from '../stillness.ts'

const count = numberArgument('decisions', 100_000)
const dataDir = await mkdtemp(join(tmpdir(), 'gatelog-bench-history-'))
const logOptions = { adapter: 'embedded', dataDir, retentionMs: 60_000 } as const
const log = openLog(logOptions)
const ids = await writeChain(log, count)
const reader = { readerModule: import.meta.resolve('./past-reader.ts'), readerFunction: 'countRows' }
const startThread = () => startSnapshots({ ...LOG_MODULE, ...reader, logOptions, macKey, dataDir, diagnostics: quiet })
let thread = startThread()

const ask = async <Name extends QuestionName>(name: Name, question: Questions[Name]['parameters']) => {
  for (;;) {
    try {
      return await thread.query(name, question)
    } catch (error) {
      if (!(error instanceof HistoryUnavailable)) throw error
    }
  }
}

const say = (what: string, { tookMs, stillMs }: Stillness, n: number) =>
  console.log(
    `${what.padEnd(44)} ${tookMs.toFixed(0).padStart(7)} ms  (${n}, ` +
      `${(tookMs / n).toFixed(2)} ms each), still for ${stillMs.toFixed(1)} ms at most`,
  )

console.log(`${count} decisions`)
say('this thread alone', await stillness(() => Bun.sleep(1_000)), 1)
say(
  'first page, with the survey of the whole log',
  await stillness(() => ask('page', { before: null, skip: 0, limit: 50 })),
  1,
)
const pages = Math.ceil(count / 1_000)
const paging = async () => {
  for (let page = 0; page < pages; page++) await ask('page', { before: null, skip: page * 1_000, limit: 1_000 })
}
say('all pages of 1,000', await stillness(paging), pages)
const asOf = (share: number) => ask('past', { moment: { id: ids[Math.floor((count - 1) * share)]! }, read: null })
say('as of the end, first time', await stillness(() => asOf(1)), 1)
say('as of the same again', await stillness(() => asOf(1)), 1)
say('as of the middle', await stillness(() => asOf(0.5)), 1)
await thread.stop()
thread = startThread()
say('first page after the next start', await stillness(() => ask('page', { before: null, skip: 0, limit: 50 })), 1)
await thread.stop()
await log.close()
await rm(dataDir, { recursive: true, force: true })
