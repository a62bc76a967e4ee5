// Ids of tool calls that have none from the upstream.
import type { Reading } from '../port.ts'

/** The id of a call without one. Short enough for every wire that limits the length of ids. */
export const callId = (reading: Reading | undefined, place: string): string =>
  `call_${(reading?.id ?? 'unnamed').replace(/^chatcmpl-/, '').replaceAll('-', '')}_${place}`
