// Ids of tool calls that an upstream leaves without one.
import type { Reading } from '../port.ts'

/** Of a call without one. Short enough for every wire that limits the length of ids. */
export const callId = (reading: Reading | undefined, place: string): string =>
  `call_${(reading?.id ?? 'unnamed').replace(/^chatcmpl-/, '').replaceAll('-', '')}_${place}`
