import { expect, test } from 'bun:test'
import { readdir } from 'node:fs/promises'
import { LOG_MODULE, openLog } from '../../../src/log/open-log.ts'
import { loadSnapshot } from '../../../src/state/history/snapshot.ts'
import { startSnapshots } from '../../../src/state/history/snapshot-thread.ts'
import { closedAfterEach } from '../../services/closing.ts'
import { eventually } from '../../services/eventually.ts'
import { begin, createTenant, macKey, openInstance, quiet } from '../support.ts'

const closing = closedAfterEach()

const setUp = async () => {
  const dataDir = closing.folder()
  const logOptions = { adapter: 'embedded', dataDir, retentionMs: 60_000 } as const
  const log = openLog(logOptions)
  closing.push(() => log.close())
  await begin(log)
  const instance = await openInstance('a', log)
  closing.push(() => instance.close())
  await instance.live.ready()
  return { dataDir, instance, shared: { ...LOG_MODULE, logOptions, macKey, dataDir, diagnostics: quiet } }
}

/** A thread that writes by decisions only, what it has written, and `next`, which resolves with the next one. */
const watched = (options: Parameters<typeof startSnapshots>[0]) => {
  const written: { next: number; tip: string }[] = []
  let wake = () => {}
  const snapshots = startSnapshots({
    everyMs: 60_000,
    ...options,
    onWritten: (snapshot) => {
      written.push(snapshot)
      wake()
    },
  })
  return { snapshots, written, next: () => new Promise<void>((resolve) => (wake = resolve)) }
}

test('the thread writes the first snapshot soon, then every so many decisions, and a last one at stop', async () => {
  const { dataDir, instance, shared } = await setUp()
  const { snapshots, written, next } = watched({ ...shared, everyDecisions: 10 })
  await next()
  expect(written[0]!.tip).toBe(instance.live.tip)
  const more = next()
  for (let index = 0; index < 10; index++) await instance.queue.commit(createTenant(`t${index}`))
  await more
  await instance.queue.commit(createTenant('last'))
  await snapshots.stop()
  const { start, witness } = await loadSnapshot(dataDir, macKey)
  expect(witness).toEqual({ next: instance.live.next, tip: instance.live.tip, chainId: 'chain_test' })
  expect(start!.state.digest()).toBe(instance.live.status().digest)
  expect((await readdir(dataDir)).filter((name) => name.endsWith('.draft'))).toEqual([])
})

test('a state that is too large to be held is read from its own snapshot when the next one is due', async () => {
  const { dataDir, instance, shared } = await setUp()
  const { snapshots, written, next } = watched({ ...shared, everyDecisions: 5, heldRows: 0 })
  await next()
  for (let round = 1; round <= 2; round++) {
    const more = next()
    for (let index = 0; index < 5; index++) await instance.queue.commit(createTenant(`t${round}${index}`))
    await more
    const { start } = await loadSnapshot(dataDir, macKey)
    expect(start!.next).toBe(written[round]!.next)
    expect(start!.state.digest()).toBe(instance.live.status().digest)
  }
  await snapshots.stop()
  expect(snapshots.status().problem).toBeNull()
})

test('a thread that has nothing to do ends, and is started for the next snapshot, for a question, and for the last snapshot at stop', async () => {
  const { dataDir, instance, shared } = await setUp()
  const rested: number[] = []
  let wake = () => {}
  const diagnostics = {
    ...quiet,
    debug(event: string, fields?: Record<string, unknown>) {
      if (event !== 'snapshot_thread_rests') return
      rested.push(fields!.next as number)
      wake()
    },
  }
  const rest = { position: () => instance.live.next, afterMs: 50 }
  const { snapshots, written, next } = watched({ ...shared, diagnostics, everyDecisions: 10, rest })
  const nextRest = () => new Promise<void>((resolve) => (wake = resolve))
  await Promise.all([next(), nextRest()])
  expect(rested).toEqual([written[0]!.next])

  const [more, again] = [next(), nextRest()]
  for (let index = 0; index < 10; index++) await instance.queue.commit(createTenant(`t${index}`))
  await Promise.all([more, again])
  expect(written[1]!.next).toBe(instance.live.next)

  await instance.queue.commit(createTenant('unwritten'))
  const asked = nextRest()
  const { total } = await snapshots.query('page', { before: null, skip: 0, limit: 1 })
  await asked
  expect([total, written.length, rested.length]).toEqual([instance.live.next, 2, 3])

  await snapshots.stop()
  const { start } = await loadSnapshot(dataDir, macKey)
  expect(start!.next).toBe(instance.live.next)
  expect(start!.state.digest()).toBe(instance.live.status().digest)
})

test('who may not rest, because somebody asks all the time, writes after a while too', async () => {
  const { instance, shared } = await setUp()
  const rest = { position: () => instance.live.next, afterMs: 50 }
  const { snapshots, written, next } = watched({ ...shared, everyMs: 300, rest })
  await next()
  const more = next()
  await instance.queue.commit(createTenant('late'))
  let isWritten = false
  void more.then(() => (isWritten = true))
  while (!isWritten) await snapshots.query('page', { before: null, skip: 0, limit: 1 })
  expect(written.at(-1)!.next).toBe(instance.live.next)
  await snapshots.stop()
})

test('a state that is too large to be held rests too', async () => {
  const { dataDir, instance, shared } = await setUp()
  const rest = { position: () => instance.live.next, afterMs: 20 }
  const { snapshots, written, next } = watched({ ...shared, everyDecisions: 5, heldRows: 0, rest })
  await next()
  for (let round = 1; round <= 2; round++) {
    const more = next()
    for (let index = 0; index < 5; index++) await instance.queue.commit(createTenant(`t${round}${index}`))
    await more
  }
  await snapshots.stop()
  expect((await loadSnapshot(dataDir, macKey)).start!.next).toBe(written.at(-1)!.next)
})

test('a thread that cannot open its log says so and lives on', async () => {
  const { shared } = await setUp()
  const snapshots = startSnapshots({ ...shared, logFactory: 'nothing' })
  await eventually('the problem is told', () => snapshots.status().problem !== null)
  expect(snapshots.status().problem).toContain('nothing')
  await snapshots.stop()
})

test('a thread begins after what it is to wait for, and not at all when that fails or the gateway stops before', async () => {
  const { instance, shared } = await setUp()
  const folded = Promise.withResolvers<void>()
  const refused = Promise.withResolvers<void>()
  const waiting = watched({ ...shared, after: folded.promise })
  const without = watched({ ...shared, dataDir: closing.folder(), after: refused.promise })
  const stopped = watched({ ...shared, dataDir: closing.folder(), after: folded.promise })
  await stopped.snapshots.stop()
  refused.reject(new Error('the log is refused'))
  // One that waits for nothing begins later than they would have.
  const other = watched({ ...shared, dataDir: closing.folder() })
  await other.next()
  expect(waiting.written).toEqual([])
  const first = waiting.next()
  folded.resolve()
  await first
  expect(waiting.written[0]!.tip).toBe(instance.live.tip)
  expect([...without.written, ...stopped.written]).toEqual([])
  for (const { snapshots } of [waiting, without, other]) await snapshots.stop()
})
