// Writes a chain of decisions to the embedded log of a folder, for benches of large states. Through the API a million
// decisions would take hours.
import { type EventRecord, GENESIS, writeDecision } from '../../../src/domain/kernel/decision.ts'
import { openLog } from '../../../src/log/open-log.ts'
import { CONTROL } from '../../../src/state/fold.ts'

const APPEND_BYTES = 250_000
const APPEND_RECORDS = 256
const START_MS = 1_790_000_000_000

/** `decisions`: the events of each. Answers how many there were. */
export const writeDecisions = async (
  dataDir: string,
  decisions: Iterable<readonly EventRecord[]>,
  macKey: Uint8Array,
): Promise<number> => {
  const log = openLog({ adapter: 'embedded', dataDir, retentionMs: 60_000 })
  const actor = { type: 'system', id: 'bench' } as const
  let [tip, count, bytes] = [GENESIS, 0, 0]
  let records: { key: null; value: Uint8Array }[] = []
  const flush = async () => {
    await log.append(CONTROL, 0, records)
    records = []
    bytes = 0
  }
  for (const events of decisions) {
    const at = new Date(START_MS + count++).toISOString()
    const written = writeDecision({ parent: tip, at, actor, cause: null, v: 1, events }, macKey)
    tip = written.id
    if (bytes + written.bytes.length > APPEND_BYTES || records.length === APPEND_RECORDS) await flush()
    records.push({ key: null, value: written.bytes })
    bytes += written.bytes.length
  }
  await flush()
  await log.close()
  return count
}
