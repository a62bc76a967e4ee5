// Starts do not wait for what is away: a little patience, then on without it.

/** How long a start waits for one of its steps before it serves without it. */
export const START_WAIT_MS = 1_500

/** Longer than brokers and this process take on a machine that is busy. */
const SLOW_MS = 15_000

/**
 * Waits on for work that was not done in time, as long as it is only slow: until whoever it waits for is seen to be away, or the time is up. What was
 * decided just before a start (a budget, a key that was revoked) then holds from the first request on.
 */
export const waitUnlessUnreachable = async (
  work: Promise<unknown>,
  away: Promise<void>,
  limitMs = SLOW_MS,
): Promise<void> => {
  const patience = Promise.withResolvers<void>()
  const timer = setTimeout(patience.resolve, limitMs)
  try {
    // What fails now is told by who waited first.
    await Promise.race([work.catch(() => undefined), away, patience.promise])
  } finally {
    clearTimeout(timer)
  }
}

/** Waits for the work a little. What fails within that time is thrown, what fails later is told. True when it was done in time. */
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
