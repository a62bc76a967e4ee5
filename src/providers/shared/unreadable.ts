// Events of a stream that cannot be read (docs/decisions/0021).
import { malformed } from './failure.ts'

/** So much litter in one stream, and it is given up. */
const MOST_UNREADABLE = 16
/** How an object begins, or a list of them: what answers are made of. */
const LOOKS_LIKE_ANSWER = /^\s*\[?\s*\{/

/**
 * Skips litter and returns how much there has been, this included; `seen` is the count before. Throws for an event
 * that may have been a piece of the answer: without it the rest would pass for the whole. After a `complete` answer
 * nothing can be missing.
 */
export const passOver = (data: string, seen: number, complete: boolean): number => {
  if (!complete && LOOKS_LIKE_ANSWER.test(data)) throw malformed('a piece of its stream cannot be read')
  if (seen >= MOST_UNREADABLE) throw malformed('its stream cannot be read')
  return seen + 1
}
