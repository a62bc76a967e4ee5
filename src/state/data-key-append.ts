// Appends to `gateway.keys.v1`.
import { pause } from '../lib/pause.ts'
import { type EventLog, IndefiniteAppend, LogUnavailable } from '../log/port.ts'
import { TOPICS } from '../log/topics.ts'
import { CommitFailure } from './port.ts'

const KEYS = TOPICS.keys.name
const LIMIT_MS = 5_000
const RETRY_MS = 100

/**
 * Appends a wrapped key, or the tombstone (null) of one, until it is certain; a further copy of the same record changes nothing.
 * Throws CommitFailure when it is not certain within 5 s or when `closing` is aborted.
 */
export const appendDataKey = async (
  log: EventLog,
  key: string,
  value: Uint8Array | null,
  closing: AbortSignal,
): Promise<void> => {
  const deadline = AbortSignal.timeout(LIMIT_MS)
  let sent = false
  while (!deadline.aborted && !closing.aborted) {
    try {
      return await log.append(KEYS, 0, [{ key, value }], deadline)
    } catch (error) {
      if (error instanceof IndefiniteAppend) sent = true
      else if (!(error instanceof LogUnavailable) && !deadline.aborted) throw error
      await pause(RETRY_MS, AbortSignal.any([deadline, closing]))
    }
  }
  const what = `${KEYS} could not be written in time`
  throw sent ? new CommitFailure('unknown', what) : new CommitFailure('unavailable', `${what}: nothing was changed`)
}
