// Frames in the operations topic: after any refusal, the written frames are in order and contain what the plans used.
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { SpoolClosed } from '../../../src/log/spool/port.ts'
import { openHealth } from '../../../src/state/health/book.ts'
import { UNOBSERVED } from '../../../src/state/health/frame.ts'
import { foldFrame, type SignalRows } from '../../../src/state/health/frames.ts'
import { type FrameEvent, frameWriter } from '../../../src/upkeep/watch/frame-writer.ts'
import { catalogueOf } from '../../inference/gateway.ts'
import { appended } from '../../log/appended.ts'
import { ALPHA, BETA } from '../../state/health/world.ts'

const frame = (number: number): FrameEvent => ({
  type: 'frame.taken',
  subject: null,
  data: { number, at_ms: 0, whole: false, part: 1, parts: 1, candidates: [] },
})

/** A log that refuses while `refuses` is set. */
const flaky = () => {
  const here = {
    refuses: null as unknown,
    written: [] as FrameEvent['data'][],
    failures: 0,
    lost: [] as number[],
    /** All appends that were begun have ended. */
    settled: async () => {
      for (let i = 0; i < 200; i++) await Promise.resolve()
    },
  }
  const writer = frameWriter({
    async append({ data }) {
      if (here.refuses !== null) throw here.refuses
      here.written.push(data)
    },
    onFailure: () => here.failures++,
    onLost: (count) => here.lost.push(count),
  })
  return { here, writer }
}
const numbers = ({ written }: { written: FrameEvent['data'][] }) => written.map(({ number }) => number)

describe('a frame that is refused', () => {
  test('is written again before those that came after it', async () => {
    const { here, writer } = flaky()
    writer.write(frame(1))
    await here.settled()
    here.refuses = new SpoolClosed('the disk is full')
    writer.write(frame(2))
    await here.settled()
    here.refuses = null
    writer.write(frame(3))
    await here.settled()
    expect([numbers(here), writer.waiting, here.failures]).toEqual([[1], 2, 1])
    writer.retry()
    await here.settled()
    expect([numbers(here), writer.waiting]).toEqual([[1, 2, 3], 0])
  })

  test('that is in the log all the same is not written twice', async () => {
    const { here, writer } = flaky()
    here.refuses = new SpoolClosed('not shipped in time', appended('ins.e.1'))
    writer.write(frame(1))
    await here.settled()
    expect([writer.waiting, here.failures]).toEqual([0, 0])
  })

  test('does not make others wait without a bound: then all are given up', async () => {
    const { here, writer } = flaky()
    here.refuses = new Error('away')
    for (let number = 1; number <= 65; number++) writer.write(frame(number))
    await here.settled()
    expect([writer.waiting, here.lost]).toEqual([0, [64]])
    here.refuses = null
    writer.write(frame(66))
    await here.settled()
    expect(numbers(here)).toEqual([66])
  })
})

test('whatever is refused: every frame in the log, folded in its order, is what the plans of that frame saw', async () => {
  const step = fc.constantFrom('fail', 'succeed', 'refuse', 'accept', 'retry')
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 250 }), async (steps) => {
      const { here, writer } = flaky()
      let nowMs = 1_000
      const book = openHealth({
        catalogue: catalogueOf([ALPHA, BETA]),
        nowMs: () => nowMs,
        monotonicMs: () => nowMs,
        emit: (event) => event.type === 'frame.taken' && writer.write(event),
      })
      const seen = new Map<number, SignalRows>()
      let lost = 0
      for (const each of [...steps, 'accept', 'retry'] as const) {
        if (each === 'refuse') here.refuses = new Error('away')
        else if (each === 'accept') here.refuses = null
        else if (each === 'retry') writer.retry()
        else {
          const call = book.begin(each === 'fail' ? ALPHA : BETA, undefined, true)
          if (typeof call !== 'string') call.end(each === 'fail' ? 'failure' : 'success', 10, 500)
        }
        nowMs += 1_100
        if (here.lost.length > lost) book.restate()
        lost = here.lost.length
        const current = book.current()
        seen.set(current.number, new Map([ALPHA, BETA].map(({ modelId }) => [modelId, current.signals(modelId)])))
        await here.settled()
      }
      let rows: SignalRows = new Map()
      let last = 0
      for (const data of here.written) {
        expect(data.number).toBeGreaterThan(last)
        if (data.number !== last + 1) expect(data.whole).toBe(true)
        last = data.number
        rows = foldFrame(rows, data)
        for (const [modelId, signals] of seen.get(data.number) ?? [])
          expect(rows.get(modelId) ?? UNOBSERVED).toEqual(signals)
      }
      if (here.lost.length === 0 && seen.size > 1) expect(last).toBe(book.current().number)
    }),
    { numRuns: 60 },
  )
})
