// The request log in Postgres: exactly once, whatever is repeated or raced.
import { describe, expect, test } from 'bun:test'
import { requestQueries } from '../../../projections/requests/query.ts'
import { LogReplaced } from '../../../src/log/port.ts'
import { eventually } from '../../services/eventually.ts'
import { silent } from '../../services/postgres.ts'
import { testStore } from '../store.ts'
import { admitted, NOON_MS, REQUESTS, sender, settled, startWorker, testLog } from '../support.ts'

const store = testStore()

describe('the request log', () => {
  test('repeats of the same instance, epoch and sequence are dropped; another epoch is not a repeat', async () => {
    const log = testLog()
    const one = sender()
    const batch = [...one.both('req_1'), ...one.both('req_2'), ...one.both('req_3')]
    await log.append(REQUESTS, 0, batch)
    await log.append(REQUESTS, 0, batch.slice(2)) // an append whose answer was lost, sent again
    await log.append(REQUESTS, 0, sender('ins_1', 'e2').both('req_4'))
    const schema = await store.fold(log)
    expect((await store.requests(schema)).map(({ id }) => id)).toEqual(['req_1', 'req_2', 'req_3', 'req_4'])
    const sequences = await store.sql<{ epoch: string; sequence: number }[]>`
      select epoch, sequence from gatelog.sequence where model = 'requests' order by epoch`
    expect(sequences.map(({ epoch, sequence }) => [epoch, sequence])).toEqual([
      ['e1', 5],
      ['e2', 1],
    ])
  })

  test('the first settlement of an admission in the log is the outcome', async () => {
    const log = testLog()
    const { record } = sender()
    await log.append(REQUESTS, 0, [
      record('request.admitted', admitted('req_1')),
      record('request.settled', settled('req_1', { outcome: 'success' })),
      record('request.settled', settled('req_1', { outcome: 'orphaned', cost_basis: 'estimated' })),
    ])
    const schema = await store.fold(log)
    expect((await store.requests(schema)).map(({ outcome }) => outcome)).toEqual(['success'])
  })

  test('a request is known once it was admitted, by its id and its time', async () => {
    const log = testLog()
    const instance = sender()
    await log.append(REQUESTS, 0, [
      instance.record('request.admitted', admitted('req_open')),
      ...instance.both('req_done'),
    ])
    await store.fold(log)
    const { isKnown, one } = requestQueries(store.sql)
    const atMs = admitted('req_open').at_ms!
    expect([await isKnown('req_open', atMs), await one('req_open', null)]).toEqual([true, null])
    expect(await Promise.all([isKnown('req_done', atMs), isKnown('req_none', atMs)])).toEqual([true, false])
  })

  test('between partitions the earlier settlement in log time is the outcome, whichever is folded first', async () => {
    for (const late of [0, 1]) {
      const log = testLog(2)
      await log.append(REQUESTS, 1 - late, [
        sender('ins_1').record('request.settled', settled('req_1', { outcome: 'success' })),
      ])
      await log.append(REQUESTS, late, [
        sender('ins_2').record('request.settled', settled('req_1', { outcome: 'orphaned' })),
      ])
      const schema = await store.fold(log)
      expect((await store.requests(schema)).map(({ outcome }) => outcome)).toEqual(['success'])
      await store.empty()
    }
  })

  test('two workers beside each other count nothing twice; when the owner ends, the other goes on', async () => {
    const log = testLog(2)
    const senders = [sender('ins_1'), sender('ins_2')]
    const lost: number[] = []
    const diagnostics = {
      ...silent,
      info: (event: string) => void (event === 'projection_ownership_lost' && lost.push(1)),
    }
    const workers = ['a', 'b'].map((worker) => store.follow(log, { worker, diagnostics }))
    let written = 0
    const write = async (count: number) => {
      for (const end = written + count; written < end; written++)
        for (const partition of [0, 1])
          await log.append(REQUESTS, partition, senders[partition]!.both(`req_${partition}_${written}`))
      await store.applied('requests', 2 * written, 0)
      return store.applied('requests', 2 * written, 1)
    }
    let schema = await write(100)
    for (let more = 0; lost.length === 0 && more < 20; more++) schema = await write(10)
    expect(lost.length).toBeGreaterThan(0) // else they never met, and this shows nothing
    expect((await store.requests(schema)).length).toBe(2 * written)
    await workers[0]!.stop()
    await write(1)
    expect((await store.requests(schema)).length).toBe(2 * written)
  })

  test('a log that was truncated, or replaced by another, ends the worker with one clear line', async () => {
    const log = testLog()
    const one = sender()
    await log.append(REQUESTS, 0, [...one.both('req_1'), ...one.both('req_2')])
    await store.fold(log)
    log.truncate(REQUESTS, 0, 2)
    await expect(startWorker({ log, databaseUrl: store.databaseUrl }).ended).rejects.toThrow(LogReplaced)
    const other = testLog()
    const strangers = sender('ins_9')
    await other.append(
      REQUESTS,
      0,
      ['a', 'b', 'c'].flatMap((name) => strangers.both(`req_${name}`)),
    )
    // Three models read this topic: the first that looks reports it.
    await expect(startWorker({ log: other, databaseUrl: store.databaseUrl }).ended).rejects.toThrow(
      /run: gateway rebuild (requests|feedback|frames)$/,
    )
  })

  test('segments may be trimmed only below what is durably applied', async () => {
    const log = testLog()
    const told: number[] = []
    store.follow(log, { onProjected: (topic, _, next) => void (topic === REQUESTS && told.push(next)) })
    const one = sender()
    await log.append(REQUESTS, 0, one.both('req_1'))
    await log.append(REQUESTS, 0, one.both('req_2'))
    await eventually('told of offset 4', async () => told.at(-1) === 4)
    expect(told).toEqual([...told].sort((a, b) => a - b))
  })

  test('rows arriving for any day find their table', async () => {
    const log = testLog()
    const { record } = sender()
    const days = [-80, -1, 0, 1, 30].map((day) => NOON_MS + day * 86_400_000)
    await log.append(
      REQUESTS,
      0,
      days.map((at_ms) => record('request.settled', settled(`req_${at_ms}`, { at_ms }))),
    )
    const schema = await store.fold(log)
    expect((await store.requests(schema)).length).toBe(5)
  })
})
