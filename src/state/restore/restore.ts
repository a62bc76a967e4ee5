// The work of `gateway log restore`: appends the tail that the control topic lost, unchanged. Ids being digests of the
// bytes, it counts again.
import { GENESIS } from '../../domain/kernel/decision.ts'
import { sha256Hex } from '../../lib/crypto/digest.ts'
import { sleep } from '../../lib/event-loop/sleep.ts'
import { type EventLog, IndefiniteAppend, LogUnavailable } from '../../log/port.ts'
import { BATCH_BYTES, BATCH_DECISIONS } from '../commit/batch.ts'
import { type ChainFold, CONTROL, foldAgain } from '../fold.ts'
import type { StoredRecord } from './kept-records.ts'

export interface RestoreDeps {
  readonly log: EventLog
  /** `decisionMacKey` of the master key. */
  readonly macKey: Uint8Array
  /** The stored records of the data folder, oldest first. */
  readonly stored: readonly StoredRecord[]
  readonly signal: AbortSignal
}

export type RestorePlan =
  /** The log holds all stored records. */
  | { readonly kind: 'whole'; readonly end: number; readonly tip: string }
  | {
      readonly kind: 'lost'
      /** The end of the log, and its last decision; GENESIS: it is empty. */
      readonly end: number
      readonly tip: string
      /** The records to append, and the number of decisions among them. The last one is `newTip`. */
      readonly tail: readonly StoredRecord[]
      readonly decisions: number
      readonly newTip: string
    }
  /** Why nothing can be appended, in one line. */
  | { readonly kind: 'refused'; readonly reason: string }

const RETRY_MS = 250
const shown = (id: string): string => id.slice(0, 12)

/**
 * Reads the whole log and returns which of the stored records it lacks. Writes nothing. Throws LogReplaced when the log
 * lost its head, LogUnavailable.
 */
export const planRestore = async ({ log, macKey, stored, signal }: RestoreDeps): Promise<RestorePlan> => {
  const fold = await foldAgain(log, macKey, signal)
  const last = stored.findLast(({ counted }) => counted)
  if (last === undefined)
    return refused('data.dir keeps no records of the control topic: run it with the data.dir of another instance')
  const newTip = idOf(last)
  const { next: end, tip } = fold
  if (fold.counted.has(newTip)) return { kind: 'whole', end, tip }
  if (fold.counts.forged > 0 && fold.counts.counted === 0) {
    return refused(`no record of ${CONTROL} was written with this master key: set security.master_key`)
  }
  const from = tip === GENESIS ? 0 : stored.findIndex((record) => record.counted && idOf(record) === tip) + 1
  if (from === 0 && tip !== GENESIS) return refused(whyNoPrefix(fold, stored))
  const tail = stored.slice(from, stored.indexOf(last) + 1)
  const before = fold.counts.counted
  for (const { value } of tail) fold.take({ offset: fold.next, atMs: fold.logAtMs, key: null, value }, true)
  if (fold.tip !== newTip) {
    return refused(
      tip === GENESIS
        ? `${CONTROL} is empty and data.dir keeps only what begins at offset ${stored[0]!.offset}: restore a backup ` +
            'of the topic first'
        : `the kept records after ${shown(tip)} do not chain on: they are damaged, or of another master key`,
    )
  }
  return { kind: 'lost', end, tip, tail, decisions: fold.counts.counted - before, newTip }
}

/**
 * Appends the tail of a plan. An indefinite append is written again: a further copy changes nothing. Throws when the
 * signal ends it.
 */
export const appendTail = async ({ log, signal }: RestoreDeps, tail: readonly StoredRecord[]): Promise<void> => {
  for (const batch of batchesOf(tail)) {
    const records = batch.map(({ value }) => ({ key: null, value }))
    for (;;) {
      try {
        await log.append(CONTROL, 0, records, signal)
        break
      } catch (error) {
        if (!(error instanceof IndefiniteAppend || error instanceof LogUnavailable)) throw error
        await sleep(RETRY_MS, signal)
        signal.throwIfAborted()
      }
    }
  }
}

const refused = (reason: string): RestorePlan => ({ kind: 'refused', reason })

const idOf = ({ value }: StoredRecord): string => sha256Hex(value!)

const whyNoPrefix = (fold: ChainFold, stored: readonly StoredRecord[]): string => {
  const common = stored.findLast((record) => record.counted && fold.counted.has(idOf(record)))
  if (common !== undefined) {
    return (
      `${CONTROL} went another way: after ${shown(idOf(common))} it holds ${shown(fold.tip)}, which was decided ` +
      'without the lost records; they cannot count any more'
    )
  }
  return (
    `${CONTROL} ends with ${shown(fold.tip)}, which is not among the ${stored.length} records that data.dir keeps ` +
    `(from offset ${stored[0]!.offset}): it lost more than that, or is another chain; restore a backup of the topic ` +
    'first'
  )
}

function* batchesOf(tail: readonly StoredRecord[]): IterableIterator<readonly StoredRecord[]> {
  let batch: StoredRecord[] = []
  let bytes = 0
  for (const record of tail) {
    const size = record.value?.length ?? 0
    if (batch.length > 0 && (batch.length === BATCH_DECISIONS || bytes + size > BATCH_BYTES)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(record)
    bytes += size
  }
  if (batch.length > 0) yield batch
}
