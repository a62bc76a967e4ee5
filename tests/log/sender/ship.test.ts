import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { codeOf } from '../../../src/lib/process/error-code.ts'
import { readEnvelope } from '../../../src/log/envelope.ts'
import { nodeFiles } from '../../../src/log/files.ts'
import { type AppendFault, type MemoryLog, memoryLog } from '../../../src/log/memory.ts'
import { listSegments } from '../../../src/log/segments/writer.ts'
import { type ShipOptions, type ShipProgress, shipSpool } from '../../../src/log/sender/ship.ts'
import { startSender } from '../../../src/log/sender/thread.ts'
import { readWatermark, spoolNumbers } from '../../../src/log/spool/directory.ts'
import { adoptFreeSpools, type LocalSpool } from '../../../src/log/spool/open.ts'
import { REFUSABLE } from '../../../src/log/spool/port.ts'
import { partitionOf } from '../../../src/log/topics.ts'
import { eventually } from '../../services/eventually.ts'
import { idOf } from '../appended.ts'
import { diskError } from '../small-disk.ts'
import { openTestSpool, startProcess, temporaryFolder } from '../support.ts'

const folder = temporaryFolder()
afterAll(() => folder.remove())
let folders = 0
const fresh = () => join(folder.path, String(folders++))

const PARTITIONS = 3
const targets = {
  requests: { topic: 'requests', partitions: PARTITIONS },
  operations: { topic: 'operations', partitions: 1 },
} as const

const fill = async (spool: LocalSpool, count: number, from = 0): Promise<string[]> => {
  const ids: string[] = []
  for (let index = from; index < from + count; index++) {
    ids.push(await idOf(spool.append('requests', 'request.settled', `tenant-${index % 7}`, `{"n":${index}}`)))
  }
  return ids
}

/** Ships until everything that stands in the spool now has been shipped. */
const drain = (
  directory: string,
  log: MemoryLog,
  onProgress: (progress: ShipProgress) => void = () => undefined,
  signal = new AbortController().signal,
  more: Partial<ShipOptions> = {},
) =>
  shipSpool({
    directory,
    log,
    targets,
    drain: true,
    signal,
    nowMs: Date.now,
    more: async () => undefined,
    onProgress,
    backoffMs: () => 0,
    ...more,
  })

const idsIn = (log: MemoryLog): string[] =>
  Array.from({ length: PARTITIONS }, (_, partition) => log.records('requests', partition))
    .flat()
    .map((record) => readEnvelope(record.value!)!.id)

describe('shipping', () => {
  test('each record goes to the partition of its subject, in order, once', async () => {
    const spool = await openTestSpool(fresh(), { segmentBytes: 10_000 })
    const ids = await fill(spool, 700)
    await spool.append('operations', 'probe.ran', 'p', '{}')
    const log = memoryLog({ nowMs: Date.now })
    expect(await drain(spool.directory, log)).toBe(true)
    expect(idsIn(log).sort()).toEqual([...ids].sort())
    expect(log.records('operations').length).toBe(1)
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const envelopes = log.records('requests', partition).map((record) => readEnvelope(record.value!)!)
      expect(envelopes.length).toBeGreaterThan(50)
      for (const envelope of envelopes) expect(partitionOf(envelope.subject, PARTITIONS)).toBe(partition)
      const sequences = envelopes.map((envelope) => envelope.sequence)
      expect(sequences).toEqual([...sequences].sort((left, right) => left - right))
    }
    expect(readWatermark(spool.directory, 'sender', 'spool')).toBe(701)
    await spool.close()
  })

  test('whatever the log answers: nothing is lost, order holds in each partition but for repeats', async () => {
    const faults = fc.array(
      fc.constantFrom<AppendFault>('none', 'none', 'unavailable', 'lost_answer', 'lost_request'),
      { maxLength: 30 },
    )
    await fc.assert(
      fc.asyncProperty(faults, fc.integer({ min: 1, max: 400 }), async (plan, count) => {
        const spool = await openTestSpool(fresh())
        const ids = await fill(spool, count)
        const left = [...plan]
        const log = memoryLog({ nowMs: Date.now, faults: { beforeAppend: () => left.shift() ?? 'none' } })
        await drain(spool.directory, log)
        expect([...new Set(idsIn(log))].sort()).toEqual([...ids].sort())
        for (let partition = 0; partition < PARTITIONS; partition++) {
          const seen = new Set<number>()
          let highest = -1
          for (const record of log.records('requests', partition)) {
            const { sequence } = readEnvelope(record.value!)!
            if (!seen.has(sequence)) expect(sequence).toBeGreaterThan(highest)
            seen.add(sequence)
            highest = Math.max(highest, sequence)
          }
        }
        await spool.close()
      }),
      { numRuns: 25 },
    )
  })

  test('what has to be durable first is not shipped before it is', async () => {
    const spool = await openTestSpool(fresh())
    const ids = await fill(spool, 3)
    const log = memoryLog({ nowMs: Date.now })
    let syncs = 0
    const failing = async () => {
      if (syncs++ === 0) throw diskError('EIO')
    }
    const files = { ...nodeFiles, sync: failing }
    expect(await drain(spool.directory, log, undefined, undefined, { files, afterSync: true }).catch(codeOf)).toBe(
      'EIO',
    )
    expect(idsIn(log)).toEqual([])
    await drain(spool.directory, log, undefined, undefined, { files, afterSync: true })
    expect(idsIn(log).sort()).toEqual([...ids].sort())
    await spool.close()
  })

  test('more than one append holds, for one partition: the second waits for the first', async () => {
    const spool = await openTestSpool(fresh())
    for (let index = 0; index < 100; index++) {
      await spool.append('requests', 'request.settled', 'one', JSON.stringify({ n: index, text: 'x'.repeat(20_000) }))
    }
    let appends = 0
    const log = memoryLog({
      nowMs: Date.now,
      faults: {
        beforeAppend: async (): Promise<AppendFault> => {
          for (let turns = 5 - appends++; turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve))
          return 'none'
        },
      },
    })
    await drain(spool.directory, log)
    const numbers = log
      .records('requests', partitionOf('one', PARTITIONS))
      .map((record) => readEnvelope(record.value!)!.sequence)
    expect(numbers).toEqual(Array.from({ length: 100 }, (_, index) => index))
    expect(appends).toBeGreaterThan(3)
    await spool.close()
  })

  test('killed at any batch it goes on at its watermark: nothing lost, at most the last batch twice', async () => {
    const spool = await openTestSpool(fresh(), { segmentBytes: 20_000 })
    const ids = await fill(spool, 1_500)
    const log = memoryLog({ nowMs: Date.now })
    for (let round = 1; round <= 4; round++) {
      const stop = new AbortController()
      let appends = 0
      const view = log.view({
        afterAppend: () => {
          // The thread dies after the log took it and before the watermark moved.
          if (++appends === round * 2) stop.abort()
        },
      })
      await shipSpool({
        directory: spool.directory,
        log: view,
        targets,
        drain: true,
        signal: stop.signal,
        nowMs: Date.now,
        more: async () => undefined,
        onProgress: () => undefined,
      })
    }
    await drain(spool.directory, log)
    const arrived = idsIn(log)
    expect([...new Set(arrived)].sort()).toEqual([...ids].sort())
    expect(arrived.length).toBeGreaterThan(1_500)
    expect(arrived.length).toBeLessThanOrEqual(1_500 + 4 * 256)
    await spool.close()
  })

  test('a record that the log refuses for good is set aside and blocks nobody', async () => {
    const spool = await openTestSpool(fresh())
    await fill(spool, 100)
    const decoder = new TextDecoder()
    const log = memoryLog({
      nowMs: Date.now,
      faults: {
        beforeAppend: ({ records }) =>
          records.some((record) => decoder.decode(record.value!).includes('{"n":42}')) ? 'refused' : 'none',
      },
    })
    let last: ShipProgress | null = null
    await drain(spool.directory, log, (progress) => {
      last = progress
    })
    expect(idsIn(log).length).toBe(99)
    expect(last).toMatchObject({ record: 100, shipped: 99, refused: 1, problem: null })
    expect(readFileSync(join(spool.directory, 'set-aside', 'refused.jsonl'), 'utf8')).toContain('"data":{"n":42}')
    await spool.close()
  })

  test('a log that refuses everything is in trouble: hardly anything is set aside, nothing is passed over', async () => {
    const spool = await openTestSpool(fresh())
    const ids = await fill(spool, 300)
    let refusing = true
    const log = memoryLog({ nowMs: Date.now, faults: { beforeAppend: () => (refusing ? 'refused' : 'none') } })
    let refused = 0
    await drain(spool.directory, log, (progress) => {
      refused = progress.refused
      if (progress.problem !== null) refusing = false
    })
    expect(refused).toBe(16)
    expect(new Set(idsIn(log)).size).toBe(ids.length - 16)
    await spool.close()
  })
})

describe('the thread', () => {
  const files = (directory: string) => ({
    path: `${directory}.arrived`,
    downPath: `${directory}.down`,
    losePath: `${directory}.lose`,
    diePath: `${directory}.die`,
  })
  const start = (spool: LocalSpool, logOptions: ReturnType<typeof files>) =>
    startSender({
      spool,
      targets,
      logOptions,
      logModule: new URL('../fixtures/fake-log.ts', import.meta.url).href,
      logFactory: 'openFakeLog',
      afterSync: false,
      gatherMs: 0,
    })
  const arrived = (path: string) =>
    readFileSync(path, 'utf8')
      .trim()
      .split('\n')
      .map((line) => (JSON.parse((JSON.parse(line) as [string, number, string])[2]) as { id: string }).id)

  test('with durability log an append resolves once the log has it, also after lost answers, outages and its own death', async () => {
    const dataDir = fresh()
    let wake = () => {}
    const spool = await openTestSpool(dataDir, { durability: 'log', segmentBytes: 5_000, onFlushed: () => wake() })
    const options = files(dataDir)
    const sender = start(spool, options)
    wake = () => sender.wake()
    const ids: string[] = []
    const burst = async (count: number) =>
      ids.push(
        ...(await Promise.all(
          Array.from({ length: count }, (_, index) =>
            idOf(spool.append('requests', 'request.settled', `t${index}`, '{}')),
          ),
        )),
      )
    await burst(50)
    writeFileSync(options.losePath, '')
    await burst(50)
    writeFileSync(options.downPath, '')
    const late = burst(50)
    await eventually('the sender says that the log is away', () => sender.status().problem !== null)
    expect(new Set(arrived(options.path)).size).toBe(100)
    rmSync(options.downPath)
    await late
    writeFileSync(options.diePath, '')
    await burst(50)
    expect(sender.status().restarts).toBe(1)
    await burst(10)
    expect([...new Set(arrived(options.path))].sort()).toEqual([...ids].sort())
    expect([spool.backlog().records, sender.status().problem, listSegments(spool.directory).length]).toEqual([
      0,
      null,
      1,
    ])
    await sender.stop()
    await spool.close()
  }, 60_000)

  test('the spool of a killed process is shipped to its end and removed', async () => {
    const dataDir = fresh()
    const own = await openTestSpool(dataDir)
    const dying = startProcess('appender.ts', dataDir, 'process', '100000')
    const lines: string[] = []
    for (let line = 0; line < 200; line++) lines.push((await dying.line())!)
    await dying.kill()
    lines.push(...(await dying.rest()))
    const [adopted] = await adoptFreeSpools({
      dataDir,
      durability: 'log',
      keeping: { until: 'shipped' },
      nowMs: Date.now,
    })
    expect([adopted!.number, spoolNumbers(dataDir)]).toEqual([1, [0, 1]])
    const options = files(dataDir)
    const sender = start(own, options)
    sender.drain(adopted!)
    await eventually('the adopted spool is removed', () => !existsSync(adopted!.directory))
    const there = new Set(arrived(options.path))
    const acknowledged = lines.filter((line) => !line.startsWith('spool')).map((line) => line.split(' ')[0]!)
    expect(acknowledged.filter((id) => !there.has(id))).toEqual([])
    expect(spoolNumbers(dataDir)).toEqual([0])
    await sender.stop()
    await own.close()
  }, 60_000)

  test('a spool that is shipped stays as long as something else of it is needed', async () => {
    const dataDir = fresh()
    const own = await openTestSpool(dataDir)
    const dead = await openTestSpool(dataDir)
    await dead.append('requests', 'request.admitted', 'tenant', '{"id":"req_1"}', REFUSABLE)
    await dead.close()
    const options = files(dataDir)
    const sender = start(own, options)
    const adopt = async (isOver: Promise<boolean>) => {
      const adopting = { dataDir, durability: 'log', keeping: { until: 'shipped' }, nowMs: Date.now } as const
      const [adopted] = await adoptFreeSpools(adopting)
      if (adopted !== undefined) sender.drain(adopted, isOver)
      return adopted
    }
    const over = Promise.withResolvers<boolean>()
    const first = (await adopt(over.promise))!
    await eventually('all of it is shipped', () => first.backlog().records === 0 && arrived(options.path).length === 1)
    expect(spoolNumbers(dataDir)).toEqual([0, 1])
    over.resolve(false)
    await eventually('it can be adopted again', async () => (await adopt(Promise.resolve(true)))?.number === 1)
    await eventually('it is removed', () => !existsSync(first.directory))
    await sender.stop()
    await own.close()
  }, 60_000)
})
