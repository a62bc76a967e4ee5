// What time it is, read once for all that a turn of the event loop does (`stages.ts`), as servers of the field do: a clock takes 40 to 50 ns, and a request asked
// for it 25 times, 1.2 us of 70. In a turn it is the time when the turn came to its answers, to its requests, or to what they left to be done: late by what was
// done since, which is less than a millisecond with eight requests. Outside of a turn the clocks themselves are asked. Not for a loop that ends when it is time.

const NOT_HELD = -1
let monotonicMs = NOT_HELD
let wallMs = NOT_HELD

/** From now on it is this time, until the next call. */
export const holdTime = (): void => {
  monotonicMs = performance.now()
  wallMs = Date.now()
}

export const letTimeGo = (): void => {
  monotonicMs = NOT_HELD
  wallMs = NOT_HELD
}

/** Monotonic milliseconds, with fractions (`performance.now`). Never goes back. */
export const turnMs = (): number => (monotonicMs === NOT_HELD ? performance.now() : monotonicMs)

/** Unix milliseconds (`Date.now`). */
export const turnWallMs = (): number => (wallMs === NOT_HELD ? Date.now() : wallMs)
