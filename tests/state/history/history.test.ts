// The thread that answers for the past: verdicts, pages, states, and that all of it happens beside the serving thread.
import { describe, expect, test } from 'bun:test'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { GENESIS, writeDecision } from '../../../src/domain/kernel/decision.ts'
import { memoryLog } from '../../../src/log/memory.ts'
import { LOG_MODULE, openLog } from '../../../src/log/open-log.ts'
import { ChainFold, CONTROL, foldAgain } from '../../../src/state/fold.ts'
import { Checkpoints } from '../../../src/state/history/checkpoints.ts'
import { LogHistory } from '../../../src/state/history/history.ts'
import { HistoryUnavailable, type QuestionName, type Questions } from '../../../src/state/history/history-port.ts'
import { RecordIndex } from '../../../src/state/history/record-index.ts'
import { writeSnapshot } from '../../../src/state/history/snapshot.ts'
import { startSnapshots } from '../../../src/state/history/snapshot-thread.ts'
import { writeTurn } from '../../../src/state/write-turns.ts'
import { foldedInThreeWays } from '../../faults/control/digests.ts'
import { memoryWorld } from '../../faults/control/world.ts'
import { closedAfterEach } from '../../services/closing.ts'
import { macKey, quiet } from '../support.ts'
import { eventOf, writeChain } from '../written-chain.ts'

const closing = closedAfterEach()

describe('the survey', () => {
  test('says of every record what the fold says, whatever stands in the log', () => {
    const step = fc.record({
      what: fc.constantFrom('next', 'again', 'late', 'turn', 'forged', 'noise', 'none'),
      at: fc.nat(20),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const [fold, survey] = [new ChainFold(macKey), new RecordIndex(macKey)]
        const written: { id: string; bytes: Uint8Array }[] = []
        for (const [offset, { what, at }] of steps.entries()) {
          const earlier = written[at % Math.max(1, written.length)]
          const parent = what === 'late' ? (earlier?.id ?? GENESIS) : fold.tip
          const actor = { type: 'system', id: String(offset) } as const
          const time = new Date(1_700_000_000_000 + offset).toISOString()
          const made = writeDecision({ parent, at: time, actor, cause: null, v: 1, events: [eventOf(offset)] }, macKey)
          written.push(made)
          const forged = Buffer.from(made.bytes)
          forged[5] = 0x41
          const values: Record<string, Uint8Array | null> = {
            turn: writeTurn({ instance: 'i', nonce: String(offset) }, macKey),
            again: earlier?.bytes ?? made.bytes,
            noise: Buffer.from('noise'),
            forged,
            none: null,
          }
          const value = what in values ? values[what]! : made.bytes
          const record = { offset, atMs: 1_700_000_000_000 + offset, key: null, value }
          const { kind } = fold.take(record, true)
          survey.take(record)
          const verdict = survey.verdict(offset)
          const told = kind === 'counts' ? 'counted' : kind === 'poison' ? fold.poison.at(-1)!.kind : kind
          expect<string>(verdict).toBe(told)
          expect(survey.mayEnd(offset + 1, fold.tip)).toBe(true)
        }
        expect(survey.tip).toBe(fold.tip)
      }),
    )
  })

  test('takes the time of the writer while it fits that of the log, and never goes back', () => {
    const survey = new RecordIndex(macKey)
    let parent = GENESIS
    const take = (atMs: number, logAtMs: number) => {
      const at = new Date(atMs).toISOString()
      const actor = { type: 'system', id: 'test' } as const
      const { id, bytes } = writeDecision(
        { parent, at, actor, cause: null, v: 1, events: [eventOf(survey.next)] },
        macKey,
      )
      parent = id
      survey.take({ offset: survey.next, atMs: logAtMs, key: null, value: bytes })
      return survey.momentAt(survey.next - 1)
    }
    const noon = 1_700_000_000_000
    expect(take(noon, noon + 900)).toBe(noon)
    expect(take(noon - 3_600_000, noon + 1_000)).toBe(noon + 1_000) // a clock an hour behind
    expect(take(noon + 3_600_000, noon + 2_000)).toBe(noon + 2_000) // or ahead
    expect(take(noon + 1_500, noon + 2_500)).toBe(noon + 2_000)
    expect([noon - 1, noon, noon + 999, noon + 2_000, noon + 9_000].map((ms) => survey.offsetAt(ms))).toEqual([
      null,
      0,
      0,
      3,
      3,
    ])
  })
})

describe('states of the past', () => {
  const digestOf = (state: { digest(): string }) => state.digest()

  test('are those of a fold from the start, from whatever snapshot they are folded', async () => {
    const log = memoryLog({ nowMs: Date.now })
    const ids = await writeChain(log, 1_200)
    const dataDir = closing.folder()
    const checkpoints = new Checkpoints(dataDir, macKey, 100)
    const fold = new ChainFold(macKey)
    const expected: string[] = []
    for (const record of log.records(CONTROL)) {
      fold.take(record)
      expected.push(fold.state.digest())
    }
    const { signal } = new AbortController()
    const at = async (history: LogHistory, id: string) =>
      (await history.answer({ name: 'past', moment: { id }, read: null })) as Questions['past']['reply']
    const open = () => new LogHistory({ log, macKey, checkpoints, signal, readPast: digestOf })
    for (const offset of [0, 499, 700, 1_199]) expect((await at(open(), ids[offset]!))!.reply).toBe(expected[offset]!)
    // A snapshot of another chain lies about the same offset: it is not used, and goes.
    const other = memoryLog({ nowMs: Date.now })
    await writeChain(other, 650, 5)
    await writeChainStart(dataDir, await foldAgain(other, macKey, signal), checkpoints)
    const history = open()
    for (const offset of [1_199, 700, 649, 12, 700])
      expect((await at(history, ids[offset]!))!.reply).toBe(expected[offset]!)
    expect(checkpoints.offsets()).toEqual([])
    expect(await at(history, 'f'.repeat(64))).toBeNull()
  })

  const writeChainStart = async (dataDir: string, fold: ChainFold, checkpoints: Checkpoints) => {
    fold.state.apply([
      { table: 'chain', id: 'chain', before: null, after: { chain_id: 'c', partitions: {}, schema_version: 1 } },
    ])
    expect(writeSnapshot(dataDir, fold, 0)).toBe(true)
    checkpoints.retain(fold.next)
    expect(checkpoints.offsets()).toEqual([fold.next])
  }

  test('at most sixteen snapshots are kept for them, spread over the whole log', async () => {
    const dataDir = closing.folder()
    const checkpoints = new Checkpoints(dataDir, macKey, 10)
    for (let next = 10; next <= 1_000; next += 10) {
      await Bun.write(join(dataDir, 'control.snapshot'), String(next))
      checkpoints.retain(next)
      checkpoints.retain(next + 5)
    }
    const offsets = checkpoints.offsets()
    expect(offsets).toHaveLength(16)
    expect(offsets.at(-1)).toBe(1_000)
    expect(Math.max(...offsets.map((offset, at) => offset - (offsets[at - 1] ?? 0)))).toBeLessThan(300)
    expect(await readdir(join(dataDir, 'history'))).toHaveLength(16)
    // None of these is a snapshot: they are passed over and removed.
    expect(await checkpoints.before(500, () => true)).toBeNull()
    expect(checkpoints.offsets().every((offset) => offset > 500)).toBe(true)
  })
})

describe('the thread', () => {
  const started = async (count: number, writes = true) => {
    const dataDir = closing.folder()
    const logOptions = { adapter: 'embedded', dataDir, retentionMs: 60_000 } as const
    const log = openLog(logOptions)
    closing.push(() => log.close())
    const ids = await writeChain(log, count)
    const thread = startSnapshots({ ...LOG_MODULE, logOptions, macKey, dataDir, diagnostics: quiet, writes })
    closing.push(() => thread.stop())
    /** As a client would: what cannot be answered now is asked again. */
    const ask = async <Name extends QuestionName>(name: Name, question: Questions[Name]['parameters']) => {
      for (;;) {
        try {
          return await thread.query(name, question)
        } catch (error) {
          if (!(error instanceof HistoryUnavailable)) throw error
        }
      }
    }
    return { ids, ask, thread, log }
  }

  test('pages through 100,000 decisions, each once, while the serving thread goes on with its work', async () => {
    const count = 100_000
    const { ids, ask } = await started(count)
    let turns = 0
    const turning = setInterval(() => turns++, 0)
    const pages: number[] = []
    let wrong = 0
    for (let before: number | null = null; before !== 0; ) {
      const { entries, total }: Questions['page']['reply'] = await ask('page', { before, skip: 0, limit: 1_000 })
      expect(total).toBe(count)
      for (const [at, { offset, id, verdict }] of entries.entries()) {
        const expected = (before ?? count) - 1 - at
        if (offset !== expected || id !== ids[expected] || verdict !== 'counted') wrong += 1
      }
      pages.push(entries.length)
      before = entries.at(-1)!.offset
    }
    clearInterval(turning)
    expect([pages.length, wrong]).toEqual([100, 0])
    expect(turns).toBeGreaterThan(100)
  }, 120_000)

  test('answers in a process that writes nothing, and what is written while it is asked is in the answer', async () => {
    const { ids, ask, log, thread } = await started(10, false)
    expect((await ask('page', { before: null, skip: 0, limit: 5 })).total).toBe(10)
    const [added] = await writeChain(log, 1, Date.now())
    const record = await ask('record', { id: added! })
    expect(record?.entry).toMatchObject({ offset: 10, id: added, decision: { parent: ids.at(-1) } })
    expect(thread.status()).toEqual({ next: null, problem: null })
    await thread.stop()
    expect(thread.query('record', { id: 1 })).rejects.toThrow(HistoryUnavailable)
  })

  test('refuses more questions than it can have open', async () => {
    const { thread } = await started(10)
    const asked = Array.from({ length: 40 }, () => thread.query('record', { id: 1 }).catch((error: unknown) => error))
    const refused = (await Promise.all(asked)).filter((answer) => answer instanceof HistoryUnavailable)
    expect(refused).toHaveLength(8)
  })
})

test('a state is the same whatever way it was folded', async () => {
  const { fullReplay, incremental, snapshotAndTail, decisions } = await foldedInThreeWays(memoryWorld(), 400)
  expect(decisions).toBeGreaterThan(390)
  expect([incremental, snapshotAndTail]).toEqual([fullReplay, fullReplay])
}, 60_000)
