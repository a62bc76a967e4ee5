// Frames in Postgres: from what is stored of one, and of the whole one before it, that frame can be made again.
import { describe, expect, test } from 'bun:test'
import { foldFrameRecord, framesModel } from '../../projections/frames/project.ts'
import { frameQueries } from '../../projections/frames/query.ts'
import type { FrameTaken } from '../../src/domain/events/health.ts'
import { writeEnvelope } from '../../src/log/envelope.ts'
import { memoryLog } from '../../src/log/memory.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { testStore } from './store.ts'
import { NOON_MS, sender, tableDigest, testLog } from './support.ts'

const OPERATIONS = TOPICS.operations.name
const DAY_MS = 86_400_000
const store = testStore()
const frames = () => frameQueries(store.sql)

type Row = FrameTaken['candidates'][number]
const row = (model: string, health: number): Row => [model, 0, false, false, health, 1, 2, 3, 0, null, null]

const taken = (number: number, more: Partial<FrameTaken> = {}): FrameTaken => ({
  number,
  at_ms: NOON_MS + number,
  whole: number === 1,
  part: 1,
  parts: 1,
  candidates: [row('mod_1', number / 100)],
  ...more,
})

const record = (one: ReturnType<typeof sender>, data: FrameTaken) => one.record('frame.taken', data)

const stored = (schema: string) =>
  store.sql<{ instance: string; epoch: string; number: number; part: number }[]>`
    select instance, epoch, number, part from ${store.sql(`${schema}.frame`)} order by 1, 2, 3, 4`

const digest = (schema: string) => tableDigest(store.sql, schema, 'frame', 'instance, epoch, number, part')

/** Of an operations topic: frames among other records, one of them repeated, one that is none. */
const writtenLog = async () => {
  const log = testLog()
  const [one, two] = [sender('ins_1', 'e1'), sender('ins_2', 'e1')]
  await log.append(OPERATIONS, 0, [
    record(one, taken(1, { parts: 2 })),
    record(one, taken(1, { part: 2, parts: 2, candidates: [row('mod_2', 0.5)] })),
    one.record('probe.recorded', { provider_id: 'prov_1', note: 'a "type":"frame.taken" in a text' }),
    record(two, taken(1, { candidates: [] })),
    record(one, taken(2)),
    record(one, taken(3, { whole: true, candidates: [row('mod_9', 1)] })),
    record(one, taken(4)),
    one.record('frame.taken', { ...taken(5), part: 0 }),
    record(two, taken(3)),
    // An append whose answer was lost, made again by a writer that counts on.
    record(one, taken(4)),
  ])
  return log
}

describe('the frames read model', () => {
  test('keeps each part once, by who took it, and sets aside what is no frame', async () => {
    const schema = await store.fold(await writtenLog(), { model: 'frames' })
    expect((await stored(schema)).map((each) => Object.values(each).join(' '))).toEqual([
      ...['ins_1 e1 1 1', 'ins_1 e1 1 2', 'ins_1 e1 2 1', 'ins_1 e1 3 1', 'ins_1 e1 4 1'],
      ...['ins_2 e1 1 1', 'ins_2 e1 3 1'],
    ])
    expect(await store.setAside('frames')).toEqual([
      { log_offset: 7, reason: expect.stringContaining('not a valid frame.taken') },
    ])
  })

  test('answers a frame by the records since the whole one before it, or nothing when one of them is missing', async () => {
    await store.fold(await writtenLog(), { model: 'frames' })
    const numbers = async (instance: string, number: number, epoch = 'e1') =>
      (await frames().at(instance, epoch, number))?.map((each) => `${each.number}.${each.part}`) ?? null
    expect(await numbers('ins_1', 2)).toEqual(['1.1', '1.2', '2.1'])
    expect(await numbers('ins_1', 4)).toEqual(['3.1', '4.1'])
    expect((await frames().at('ins_1', 'e1', 4))?.[0]).toEqual(taken(3, { whole: true, candidates: [row('mod_9', 1)] }))
    expect(await numbers('ins_1', 5)).toBeNull() // not taken yet
    expect(await numbers('ins_2', 3)).toBeNull() // the second is missing
    expect(await numbers('ins_1', 2, 'e2')).toBeNull()
    expect(await numbers('ins_9', 1)).toBeNull()
  })

  test('a rebuild gives the same rows, and keeps what the log no longer holds', async () => {
    const log = await writtenLog()
    const schema = await store.fold(log, { model: 'frames' })
    const before = await digest(schema)
    await store.rebuild(log, { models: ['frames'] })
    const again = await store.schemaOf('frames')
    expect([again === schema, await digest(again)]).toEqual([false, before])
    log.trim(OPERATIONS, 0, 5)
    await store.rebuild(log, { models: ['frames'] })
    const later = await store.schemaOf('frames')
    expect([later === again, await digest(later)]).toEqual([false, before])
  })

  test('frames are erased when the days for which requests are kept have gone by in the log, never by a clock', async () => {
    let nowMs = NOON_MS
    const log = memoryLog({ nowMs: () => nowMs, partitionCount: () => 1 })
    const one = sender()
    await log.append(OPERATIONS, 0, [record(one, taken(1, { at_ms: nowMs })), record(one, taken(2, { at_ms: nowMs }))])
    const shared = { model: 'frames', requestDays: 3 }
    expect(await stored(await store.fold(log, shared))).toHaveLength(2)
    nowMs += 4 * DAY_MS
    await log.append(OPERATIONS, 0, [
      record(one, taken(3, { at_ms: nowMs })),
      record(one, taken(4, { at_ms: NOON_MS })), // it comes in when it is too old already
    ])
    expect((await stored(await store.fold(log, shared))).map(({ number }) => number)).toEqual([3])
  })

  test('the same record gives the same rows, and another one none', () => {
    const data = taken(7, { candidates: [row('mod_1', 0.25), row('mod_2', 1)] })
    const envelope = (type: string) =>
      Buffer.from(writeEnvelope({ instance: 'i', epoch: 'e', sequence: 3 }, type, 'i', NOON_MS, JSON.stringify(data)))
    const fold = (value: Uint8Array | null) =>
      foldFrameRecord({ offset: 5, atMs: NOON_MS, key: 'i', value }, NOON_MS, 2)
    expect(fold(envelope('frame.taken'))).toEqual({
      origin: { instance: 'i', epoch: 'e', sequence: 3 },
      problem: null,
      rows: [
        {
          ...{ instance: 'i', epoch: 'e', number: 7, part: 1, parts: 1, whole: false, at_ms: NOON_MS + 7 },
          ...{ candidates: JSON.stringify(data.candidates), log_partition: 2, log_offset: 5, logAtMs: NOON_MS },
        },
      ],
    })
    for (const value of [null, envelope('breaker.opened')])
      expect(fold(value)).toEqual({ origin: null, rows: [], problem: null })
    expect(fold(Buffer.from('"type":"frame.taken"'))).toEqual({ origin: null, rows: [], problem: 'not an envelope' })
    expect(framesModel(90).topic).toBe(OPERATIONS)
  })
})
