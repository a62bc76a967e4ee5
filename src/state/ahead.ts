// Reads the control topic for a fold: what lies far before its end from a thread that reads ahead, so that two processors share the work of a long log.
import type { Diagnostics } from '../lib/diagnostics.ts'
import type { EventLog, LogRecord } from '../log/port.ts'
import type { ThreadLog } from '../log/thread-log.ts'
import { unpack } from './ahead-parcel.ts'
import { AheadThread } from './ahead-thread.ts'
import { CONTROL, type RecordRead } from './fold.ts'

/** With what the thread opens its own log. */
export interface AheadOptions extends ThreadLog {
  /** Fewer records are not worth a thread. */
  readonly fromRecords?: number
  /** A thread that gives nothing for so long is not waited for. */
  readonly silenceMs?: number
}

export interface AheadDeps {
  readonly log: EventLog
  readonly macKey: Uint8Array
  readonly diagnostics: Diagnostics
  readonly ahead?: AheadOptions
}

/** The start of the thread is paid back by some twenty thousand. */
const WORTH_RECORDS = 50_000

/**
 * Follows the topic from an offset, for ever, as `EventLog.read` does. Records before `until` come without their bytes when there are many of them:
 * read, their MACs checked, in a thread. Should that fail, it is said, and they are read here: so is whatever the thread met.
 */
export async function* controlBatches(
  deps: AheadDeps,
  from: number,
  until: number,
  signal: AbortSignal,
): AsyncGenerator<readonly (LogRecord | RecordRead)[]> {
  const { ahead, log, macKey, diagnostics } = deps
  let next = from
  if (ahead !== undefined && until - from >= (ahead.fromRecords ?? WORTH_RECORDS)) {
    const thread = new AheadThread(ahead, { from, until, macKey }, ahead.silenceMs)
    try {
      for (let parcel = await nextOf(thread, signal, diagnostics); parcel !== null; ) {
        const records = unpack(parcel)
        next = records.at(-1)!.offset + 1
        yield records
        parcel = await nextOf(thread, signal, diagnostics)
      }
    } finally {
      await thread.end()
    }
  }
  if (!signal.aborted) yield* log.read(CONTROL, 0, next, signal)
}

const nextOf = async (thread: AheadThread, signal: AbortSignal, diagnostics: Diagnostics): Promise<string | null> => {
  try {
    return await thread.next(signal)
  } catch (error) {
    diagnostics.warn('control_read_ahead_failed', { error })
    return null
  }
}
