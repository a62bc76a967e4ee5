// How long a thread stood still: what everything else on it waited for.

export interface Stillness {
  readonly tookMs: number
  /** The longest time between two looks at the clock, which are due every millisecond. */
  readonly stillMs: number
}

/** Runs it and answers how long it took, and the longest time that this thread did nothing else. */
export const stillness = async (run: () => Promise<unknown>): Promise<Stillness> => {
  let [last, longest] = [performance.now(), 0]
  const look = () => {
    const now = performance.now()
    longest = Math.max(longest, now - last)
    last = now
  }
  const timer = setInterval(look, 1)
  const startedMs = performance.now()
  await run()
  look()
  clearInterval(timer)
  return { tookMs: performance.now() - startedMs, stillMs: longest }
}
