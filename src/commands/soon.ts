// Starts do not wait for what is away: a little patience, then on without it.

/** How long a start waits for one of its steps before it serves without it. */
export const START_WAIT_MS = 1_500

/** Waits for the work a little. What fails within that time is thrown, what fails later is told. True when it was done in time. */
export const soon = async (work: Promise<unknown>, onLate: (error: unknown) => void): Promise<boolean> => {
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
