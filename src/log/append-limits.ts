// Limits that every adapter checks before it writes anything, so that a caller's mistake gets the same error from all
// of them.
import type { AppendLimits, NewRecord } from './port.ts'

export const MAX_APPEND_RECORDS = 256
/**
 * What a topic must take at least (`log/kafka/topic-rules.ts`), less the overhead around the values. The cost of an
 * append does not depend on what the values hold.
 */
export const MAX_APPEND_BYTES = 448 * 1024
export const APPEND_LIMITS: AppendLimits = {
  records: MAX_APPEND_RECORDS,
  bytes: MAX_APPEND_BYTES,
  longestBytes: MAX_APPEND_BYTES,
}
/**
 * Applies before packing, which mostly leaves a seventh. If the topic cannot take the packed append, the broker
 * refuses it and the sender ships fewer records. A record that, with its key, does not fit a block of the packer
 * leaves its whole append unpacked.
 */
export const PACKED_LIMITS: AppendLimits = { records: 1_024, bytes: 2 * 1_048_576, longestBytes: 52 * 1024 }

/** Upper bound of the bytes of its value, without building it. */
export const mostBytesOf = (record: NewRecord): number => record.valueBound ?? record.value?.byteLength ?? 0

/** Why these records cannot be appended together, or null when they can. */
export const appendProblem = (records: readonly NewRecord[], limits = APPEND_LIMITS): string | null => {
  if (records.length === 0) return 'an append needs at least one record'
  if (records.length > limits.records) return `${records.length} records in one append, at most ${limits.records}`
  let bytes = 0
  for (const record of records) bytes += mostBytesOf(record)
  return bytes > limits.bytes ? `${bytes} bytes in one append, at most ${limits.bytes}` : null
}
