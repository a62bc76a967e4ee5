// Appends to `gateway.keys.v1`.
import { sleep } from '../../lib/event-loop/sleep.ts'
import { type Origin, writeEnvelope } from '../../log/envelope.ts'
import { type EventLog, IndefiniteAppend, LogUnavailable, type NewRecord } from '../../log/port.ts'
import { TOPICS } from '../../log/topics.ts'
import { CommitFailure } from '../port.ts'
import { recorded, type WrappedKey } from './wrapped-keys.ts'

const KEYS = TOPICS.keys.name
const LIMIT_MS = 5_000
const RETRY_MS = 100

/** The record of a wrapped key. */
export const recordOfKey = (origin: Origin, wrapped: WrappedKey, atMs: number): NewRecord => {
  const { type, data } = recorded(wrapped)
  const envelope = writeEnvelope(origin, type, wrapped.key_id, atMs, JSON.stringify(data))
  return { key: wrapped.key_id, value: Buffer.from(envelope) }
}

/**
 * Appends wrapped keys, or the tombstone (a value of null) of one, in one piece, until it is certain; a further copy of
 * the same records changes nothing. Throws CommitFailure when it is not certain within 5 s or when `closing` is
 * aborted.
 */
export const appendToKeys = async (
  log: EventLog,
  records: readonly NewRecord[],
  closing: AbortSignal,
): Promise<void> => {
  const deadline = AbortSignal.timeout(LIMIT_MS)
  let sent = false
  while (!deadline.aborted && !closing.aborted) {
    try {
      return await log.append(KEYS, 0, records, deadline)
    } catch (error) {
      if (error instanceof IndefiniteAppend) sent = true
      else if (!(error instanceof LogUnavailable) && !deadline.aborted) throw error
      await sleep(RETRY_MS, AbortSignal.any([deadline, closing]))
    }
  }
  const what = `${KEYS} could not be written in time`
  throw sent ? new CommitFailure('unknown', what) : new CommitFailure('unavailable', `${what}: nothing was changed`)
}
