// Logs with a chain, and instances that follow them and are closed when the test ends.
import { type EventRecord, writeDecision } from '../../src/domain/kernel/decision.ts'
import { type MemoryLog, memoryLog } from '../../src/log/memory.ts'
import type { EventLog } from '../../src/log/port.ts'
import { CONTROL, foldAgain } from '../../src/state/fold.ts'
import { openLiveState } from '../../src/state/live/live.ts'
import type { LiveDeps } from '../../src/state/live-chain.ts'
import { closedAfterEach } from '../services/closing.ts'
import { actor, begin, createTenant, type Instance, macKey, nowMs, openInstance, quiet } from './support.ts'

export const tenantCreated = (slug: string): EventRecord => ({
  type: 'tenant.created',
  data: { id: `ten_${slug}`, slug, name: slug, plan: null, managed_by: 'api' },
})
/** Appends a decision by hand, on any parent. */
export const decide = async (log: MemoryLog, parent: string, events: EventRecord[], key = macKey) => {
  const written = writeDecision({ parent, at: new Date(nowMs()).toISOString(), actor, cause: null, v: 1, events }, key)
  await log.append(CONTROL, 0, [{ key: null, value: written.bytes }])
  return written
}
/** A log with a chain and so many tenants. */
export const logOf = async (tenants: number) => {
  const log = memoryLog({ nowMs })
  await begin(log)
  const writer = await openInstance('writer', log.view())
  await writer.live.ready()
  for (let index = 0; index < tenants; index += 256) {
    const batch = Array.from({ length: Math.min(256, tenants - index) }, (_, at) => createTenant(`t${index + at}`))
    await Promise.all(batch.map((command) => writer.queue.commit(command)))
  }
  await writer.close()
  return log
}
/** The fold of all that stands in the log. */
export const folded = (log: MemoryLog) => foldAgain(log, macKey, new AbortController().signal)
/** Until the instance has folded all of it. */
export const atEnd = ({ live }: Instance, log: MemoryLog) =>
  live.condition.until(() => live.next === log.records(CONTROL).length, 20_000)

/** Call it once, at the top of a test file: what is opened here is closed after each test. */
export const liveWorld = () => {
  const closing = closedAfterEach()
  return {
    folder: closing.folder,
    async opened(name: string, log: EventLog, more: Partial<LiveDeps> = {}): Promise<Instance> {
      const instance = await openInstance(name, log, more)
      closing.push(() => instance.close())
      return instance
    },
    /** `ready`, or why the start on this log was refused. */
    async refusalOf(log: EventLog, more: Partial<LiveDeps>): Promise<'ready' | Error> {
      const live = await openLiveState({ log, macKey, dataDir: null, nowMs, diagnostics: quiet, ...more })
      closing.push(() => live.close())
      return live.ready().then(
        () => 'ready' as const,
        (error) => error as Error,
      )
    },
  }
}
