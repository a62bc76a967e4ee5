import { expect, test } from 'bun:test'
import { readdir } from 'node:fs/promises'
import { LOG_MODULE, openLog } from '../../src/log/open-log.ts'
import { loadSnapshot } from '../../src/state/snapshot.ts'
import { startSnapshots } from '../../src/state/snapshot-thread.ts'
import { closedAfterEach } from '../services/closing.ts'
import { eventually } from '../services/eventually.ts'
import { begin, createTenant, macKey, openInstance, quiet } from './support.ts'

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
  return { dataDir, logOptions, instance }
}

test('the thread writes the first snapshot soon, then every so many decisions, and a last one at stop', async () => {
  const { dataDir, logOptions, instance } = await setUp()
  const written: { next: number; tip: string }[] = []
  let wake = () => {}
  const snapshots = startSnapshots({
    ...LOG_MODULE,
    logOptions,
    macKey,
    dataDir,
    diagnostics: quiet,
    everyDecisions: 10,
    everyMs: 60_000,
    onWritten: (snapshot) => {
      written.push(snapshot)
      wake()
    },
  })
  const next = () => new Promise<void>((resolve) => (wake = resolve))
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
  const { dataDir, logOptions, instance } = await setUp()
  const written: { next: number; tip: string }[] = []
  let wake = () => {}
  const snapshots = startSnapshots({
    ...LOG_MODULE,
    logOptions,
    macKey,
    dataDir,
    diagnostics: quiet,
    everyDecisions: 5,
    everyMs: 60_000,
    heldRows: 0,
    onWritten: (snapshot) => {
      written.push(snapshot)
      wake()
    },
  })
  const next = () => new Promise<void>((resolve) => (wake = resolve))
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

test('a thread that cannot open its log says so and lives on', async () => {
  const { dataDir, logOptions } = await setUp()
  const snapshots = startSnapshots({
    logModule: LOG_MODULE.logModule,
    logFactory: 'nothing',
    logOptions,
    macKey,
    dataDir,
    diagnostics: quiet,
  })
  await eventually('the problem is told', () => snapshots.status().problem !== null)
  expect(snapshots.status().problem).toContain('nothing')
  await snapshots.stop()
})
