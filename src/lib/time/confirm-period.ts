// How often a reader confirms the end of the log, and the least staleness bound that follows from it.

/** From the reply to one request for the end of the log to the next request. */
export const CONFIRM_EVERY_MS = 2_000

/**
 * In normal operation the confirmed end is at most one period old, plus the time of a reply. A bound below three
 * periods would refuse requests of a healthy instance, or after a single lost reply.
 */
export const LEAST_MAX_STALENESS_MS = 3 * CONFIRM_EVERY_MS
