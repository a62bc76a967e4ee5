// How long a record of the control topic is on its way to the other instances, while they all write.
import { readDecision } from '../../src/domain/kernel/decision.ts'
import type { EventLog } from '../../src/log/port.ts'
import { Condition } from '../../src/state/condition.ts'
import { CONTROL } from '../../src/state/fold.ts'
import type { GatewayProcess } from '../services/gateway.ts'

/** Marks the measured records, so that they can be told from the rest before parsing. */
const MARK = '"reach-'
const EVERY_MS = 50
const READ_WITHIN_MS = 10_000

export interface Reach {
  /**
   * For each write, the time until the slowest of the other instances had it; infinite when an instance did not get it
   * within 2 s.
   */
  readonly times: readonly number[]
}

interface ReachDeps {
  /** The broker's log, by a connection of its own. */
  readonly log: EventLog
  readonly macKey: Uint8Array
  readonly gateways: readonly GatewayProcess[]
  /** Creates a tenant of this slug; null when it was refused. */
  write(gateway: GatewayProcess, slug: string): Promise<string | null>
  warm(): boolean
  running(): boolean
}

const has = async (gateway: GatewayProcess, revision: string): Promise<boolean> => {
  const answer = await gateway.request('/v1/models/none', { headers: { 'X-Gateway-Min-Revision': revision } })
  await answer.arrayBuffer()
  return answer.status === 404 // no such model; 504 when the revision did not come
}

/**
 * Measures from the broker's timestamp of the append, which is when the record can first be read, to the answer of the
 * slowest other instance to a request that needs the record.
 * The answer to the writer is no start of the measurement: it comes when the writer has folded its own record, and by
 * then the others mostly have too. The client sends its requests as soon as it has read the record or has the writer's
 * answer. The figure therefore includes the client's wait, the request and its answer; the record arrives earlier than
 * it says. Both clocks are this machine's, in whole milliseconds.
 */
export const reaches = async ({ log, macKey, gateways, write, warm, running }: ReachDeps): Promise<Reach> => {
  const [first, ...others] = gateways
  const appendedAtMs = new Map<string, number>()
  const arrivals = new Map<string, Promise<number>>()
  const changed = new Condition()
  const stop = new AbortController()
  const from = await log.end(CONTROL, 0)
  const asked = async (revision: string): Promise<number> => {
    const there = await Promise.all(others.map((gateway) => has(gateway, revision)))
    return there.every(Boolean) ? Date.now() : Number.POSITIVE_INFINITY
  }
  const arrival = (revision: string): Promise<number> => {
    const found = arrivals.get(revision) ?? asked(revision)
    arrivals.set(revision, found)
    return found
  }
  const reading = (async () => {
    for await (const batch of log.read(CONTROL, 0, from, stop.signal)) {
      for (const { value, atMs } of batch) {
        if (value === null || !Buffer.from(value.buffer, value.byteOffset, value.length).includes(MARK)) continue
        const read = readDecision(value, macKey)
        if (!('id' in read) || appendedAtMs.has(read.id)) continue
        appendedAtMs.set(read.id, atMs)
        void arrival(read.id)
      }
      changed.notify()
    }
  })()
  const times: number[] = []
  for (let n = 0; running(); n++) {
    const sentAt = performance.now()
    // A record that lost the race is in the log too, and no instance folds it: the answer names the one that counted.
    const revision = await write(first!, `reach-${n}`)
    if (revision !== null) {
      const arrivedAtMs = await arrival(revision)
      await changed.until(() => appendedAtMs.has(revision), READ_WITHIN_MS)
      if (warm()) times.push(arrivedAtMs - (appendedAtMs.get(revision) ?? Number.NEGATIVE_INFINITY))
    }
    await Bun.sleep(Math.max(0, EVERY_MS - (performance.now() - sentAt)))
  }
  stop.abort()
  await reading
  await Promise.all(arrivals.values())
  return { times }
}
