// Reads the control topic for a fold: records far before its end come from a thread that reads ahead, so that two
// processors share the work of a long log.
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import type { EventLog, LogRecord } from '../../log/port.ts'
import type { ThreadLog } from '../../log/thread-log.ts'
import { CONTROL, type RecordRead } from '../fold.ts'
import { countOf, unpack } from './parcel.ts'
import { ReadAheadThread } from './thread.ts'

/** The options for the thread's own log. */
export interface ReadAheadOptions extends ThreadLog {
  /** With fewer records no thread is started. */
  readonly fromRecords?: number
  /** A thread that sends nothing for so long is not waited for. */
  readonly silenceMs?: number
}

export interface ReadAheadDeps {
  readonly log: EventLog
  readonly macKey: Uint8Array
  readonly diagnostics: Diagnostics
  readonly readAhead?: ReadAheadOptions
}

/** A thread pays off only beyond some twenty thousand records. */
const WORTH_RECORDS = 50_000
/** The share that is read here while the thread starts. */
const OWN_SHARE = 1 / 3
const OWN_RECORDS = 16_384

/**
 * Follows the topic from an offset, for ever, as `EventLog.read` does. Records before `until` come without their bytes
 * when there are many of them: parsed, their MACs checked, by a thread. If the thread fails, the failure is reported,
 * and the records are read here, where the same problem of the log appears.
 */
export async function* controlBatches(
  deps: ReadAheadDeps,
  from: number,
  until: number,
  signal: AbortSignal,
): AsyncGenerator<readonly (LogRecord | RecordRead)[]> {
  const { readAhead, log, macKey, diagnostics } = deps
  let next = from
  if (readAhead !== undefined && until - from >= (readAhead.fromRecords ?? WORTH_RECORDS)) {
    const ownUntil = from + Math.min(OWN_RECORDS, Math.floor((until - from) * OWN_SHARE))
    const thread = new ReadAheadThread(readAhead, { from: ownUntil, until, macKey }, readAhead.silenceMs)
    try {
      yield* readHere(log, from, ownUntil, signal)
      next = ownUntil
      for (let parcel = await nextOf(thread, signal, diagnostics); parcel !== null; ) {
        const end = next + countOf(parcel)
        const records = unpack(parcel)
        if (records !== null) yield records
        else yield* readHere(log, next, end, signal)
        next = end
        parcel = await nextOf(thread, signal, diagnostics)
      }
    } finally {
      await thread.end()
    }
  }
  if (!signal.aborted) yield* log.read(CONTROL, 0, next, signal)
}

/**
 * The records from `from` up to the one before `until`, with their bytes. Fewer when the signal is aborted, or where
 * records are missing.
 */
async function* readHere(
  log: EventLog,
  from: number,
  until: number,
  signal: AbortSignal,
): AsyncGenerator<readonly LogRecord[]> {
  if (from === until) return
  for await (const batch of log.read(CONTROL, 0, from, signal)) {
    const last = batch.at(-1)!.offset + 1
    if (last < until) {
      yield batch
      continue
    }
    yield last === until ? batch : batch.filter(({ offset }) => offset < until)
    return
  }
}

const nextOf = async (
  thread: ReadAheadThread,
  signal: AbortSignal,
  diagnostics: Diagnostics,
): Promise<string | null> => {
  try {
    return await thread.next(signal)
  } catch (error) {
    diagnostics.warn('control_read_ahead_failed', { error })
    return null
  }
}
