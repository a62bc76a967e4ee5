// A chain written at once, for tests and benches of long logs: no commit queue, a record after the other.
import { type EventRecord, GENESIS, judge, writeDecision } from '../../src/domain/kernel/decision.ts'
import type { EventLog } from '../../src/log/port.ts'
import { CONTROL } from '../../src/state/fold.ts'
import { tenantCreated } from '../domain/world.ts'
import { macKey } from './support.ts'

const BATCH = 256

/** What the decision of this number decides: tenants are made, then renamed in turn. */
export const eventOf = (number: number, tenants = 500): EventRecord =>
  number < tenants
    ? tenantCreated(`ten_${number}`, `tenant-${number}`)
    : { type: 'tenant.replaced', data: { id: `ten_${number % tenants}`, name: `name ${number}`, plan: null } }

/** Appends so many decisions behind what the log holds; answers their ids. */
export const writeChain = async (log: EventLog, count: number, startMs = Date.now() - count): Promise<string[]> => {
  let tip = await tipOf(log)
  const ids: string[] = []
  for (let number = 0; number < count; ) {
    const records: { key: null; value: Uint8Array }[] = []
    for (let bytes = 0; number < count && records.length < BATCH && bytes < 200_000; number++) {
      const actor = { type: 'system', id: 'test' } as const
      const at = new Date(startMs + number).toISOString()
      const written = writeDecision({ parent: tip, at, actor, cause: null, v: 1, events: [eventOf(number)] }, macKey)
      tip = written.id
      ids.push(tip)
      bytes += written.bytes.length
      records.push({ key: null, value: written.bytes })
    }
    await log.append(CONTROL, 0, records)
  }
  return ids
}

const tipOf = async (log: EventLog): Promise<string> => {
  let tip = GENESIS
  const end = await log.end(CONTROL, 0)
  if (end === 0) return tip
  for await (const batch of log.read(CONTROL, 0, 0, new AbortController().signal)) {
    for (const { value } of batch) {
      const verdict = value === null ? null : judge(tip, value, macKey)
      if (verdict?.kind === 'counts') tip = verdict.id
    }
    if (batch.at(-1)!.offset + 1 >= end) break
  }
  return tip
}
