// What a data folder holds of the chain behind its snapshot: folded at start, so that an instance whose brokers are
// away forgets nothing that it had folded before.
import { GENESIS } from '../../domain/kernel/decision.ts'
import { ChainFold, politeness } from '../fold.ts'
import type { LoadedSnapshot } from '../history/snapshot.ts'
import type { StoredRecord } from './kept-records.ts'

/**
 * The snapshot continued by the stored records, up to the newest decision that counted. As it was where they do not
 * follow it: they are older, there is a gap, or they are of another chain. Without a snapshot they count when they
 * begin with the log. The reader of the log compares the result with the log, as it does with a snapshot.
 */
export const withStoredRecords = async (
  snapshot: LoadedSnapshot,
  stored: readonly StoredRecord[],
  macKey: Uint8Array,
): Promise<LoadedSnapshot> => {
  const from = snapshot.start?.next ?? 0
  const end = (stored.findLast(({ counted }) => counted)?.offset ?? -1) + 1
  if (end <= from || stored[0]!.offset > from) return snapshot
  const fold = new ChainFold(macKey, snapshot.start)
  const rest = politeness()
  let isRemembered = stored[0]!.offset === from
  for (const { offset, atMs, counted, value } of stored) {
    if (offset >= end || atMs === null) break
    const record = { offset, atMs, key: null, value }
    if (offset < from) {
      fold.remember(record)
      if (offset + 1 === from) isRemembered = fold.remembered()
    } else {
      const step = isRemembered ? fold.take(record, !counted) : null
      if (step === null || step.kind === 'orphan') break
      if (step.kind === 'counts') fold.storedAtMs.set(step.id, atMs)
    }
    await rest()
  }
  fold.missingParents.clear() // of records that are known to have lost
  if (fold.next === from || fold.tip === GENESIS) return snapshot
  const { state, next, tip, logAtMs, counts } = fold
  return { ...snapshot, start: { state, next, tip, logAtMs, counts }, fold }
}
