// Waiting for changes that give no event: in another process, a store, a foreign server.

/**
 * Calls `ask` repeatedly until its result is neither null nor false, and returns it. Fails after the limit with `what`,
 * which may be a function that describes the last result.
 */
export const eventually = async <Result>(
  what: string | (() => string),
  ask: () => Result | Promise<Result>,
  { limitMs = 25_000, everyMs = 10 }: { readonly limitMs?: number; readonly everyMs?: number } = {},
): Promise<Exclude<Result, null | false>> => {
  const deadline = performance.now() + limitMs
  for (;;) {
    const answer = await ask()
    if (answer !== null && answer !== false) return answer as Exclude<Result, null | false>
    if (performance.now() > deadline)
      throw new Error(`not within ${limitMs} ms: ${typeof what === 'string' ? what : what()}`)
    await Bun.sleep(everyMs)
  }
}

/**
 * Waits until a count that has begun no longer changes. It detects a sender that stopped because its receiver reads
 * nothing, which has no other visible sign.
 */
export const standsStill = async (count: () => number): Promise<void> => {
  let before = 0
  await eventually(
    () => `it stands still: ${before}`,
    () => {
      const isStill = before > 0 && before === count()
      before = count()
      return isStill
    },
    { everyMs: STILL_MS },
  )
}
const STILL_MS = 100
