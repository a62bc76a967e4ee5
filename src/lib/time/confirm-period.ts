// How often the end of the log is confirmed, and what follows for those who refuse to serve from what is older.

/** Between the answer to one question for the end of the log and the next question. */
export const CONFIRM_EVERY_MS = 2_000

/**
 * What is known of the end is up to one period old, and as old as the answers take, where all is well. A bound below three periods would refuse requests of a
 * healthy instance, or for a single question that was lost.
 */
export const LEAST_MAX_STALENESS_MS = 3 * CONFIRM_EVERY_MS
