// A start does not wait for unreachable dependencies: it waits briefly, then goes on without them.

/** How long a start waits for one of its steps before it serves without it. */
export const START_WAIT_MS = 1_500

/** Longer than brokers and this process take on a busy machine. */
const SLOW_MS = 15_000

/**
 * Waits on for work that was not done in time, as long as it is only slow: until `away` shows that its dependency is
 * unreachable, or the time is up. What was decided just before a start (a budget, a revoked key) then holds from the
 * first request on.
 */
export const waitUnlessUnreachable = async (
  work: Promise<unknown>,
  away: Promise<void>,
  limitMs = SLOW_MS,
): Promise<void> => {
  const patience = Promise.withResolvers<void>()
  const timer = setTimeout(patience.resolve, limitMs)
  try {
    // The first wait reports a failure that happens now.
    await Promise.race([work.catch(() => undefined), away, patience.promise])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Waits for the work briefly. A failure within that time is thrown, a later one is passed to `onLate`. True when the
 * work was done in time.
 */
export const waitBriefly = async (work: Promise<unknown>, onLate: (error: unknown) => void): Promise<boolean> => {
  let late = false
  const watched = work.then(
    () => true,
    (error: unknown) => {
      if (!late) throw error
      onLate(error)
      return true
    },
  )
  const patience = Promise.withResolvers<boolean>()
  const timer = setTimeout(patience.resolve, START_WAIT_MS, false)
  try {
    return await Promise.race([watched, patience.promise])
  } finally {
    late = true
    clearTimeout(timer)
  }
}
