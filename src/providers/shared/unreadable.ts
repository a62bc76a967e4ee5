// Events of a stream that cannot be read (docs/decisions/0021).
import { malformed } from './failure.ts'

/** So much litter in one stream, and it is given up. */
const MOST_UNREADABLE = 16
/** How an object begins, or a list of them: what answers are made of. */
const LOOKS_LIKE_ANSWER = /^\s*\[?\s*\{/

/**
 * Passes over litter and answers how much there has been with it; `seen` is what there was. Throws for what may have been a piece of the answer: without it
 * the rest would be taken for the whole. Behind an answer that is `complete` nothing can be missed.
 */
export const passOver = (data: string, seen: number, complete: boolean): number => {
  if (!complete && LOOKS_LIKE_ANSWER.test(data)) throw malformed('a piece of its stream cannot be read')
  if (seen >= MOST_UNREADABLE) throw malformed('its stream cannot be read')
  return seen + 1
}
