// Events of a stream that are unreadable (docs/decisions/0021).
import { malformed } from './failure.ts'

/** Litter in one stream, at most. */
const MOST_UNREADABLE = 16
/** The start of an object, or of a list of objects: the form of answers. */
const LOOKS_LIKE_ANSWER = /^\s*\[?\s*\{/

/**
 * Skips litter and returns how much there has been, this included; `seen` is the count before. Throws for an event
 * that may have been a piece of the answer: without it the rest would pass for the whole. After a `complete` answer
 * nothing can be missing.
 */
export const skipUnreadable = (data: string, count: number, complete: boolean): number => {
  if (!complete && LOOKS_LIKE_ANSWER.test(data)) throw malformed('a piece of its stream cannot be read')
  if (count >= MOST_UNREADABLE) throw malformed('its stream cannot be read')
  return count + 1
}
