// What time it is, read once for much that a part of a turn of the event loop does (`stages.ts`), as servers of the field do: a clock takes 40 to 50 ns, and a request
// asked for it 25 times, 15 times now (docs/decisions/0054). It is read when the first one asks, and late for the others by what was done since. Whoever says how
// long something took, gives a provider its time or spends a lease has it read anew (`freshTurnMs`). Outside of a turn the clocks themselves are asked. Not for a loop
// that ends when it is time.

const NOT_READ = -1
let isHeld = false
let monotonicMs = NOT_READ
let wallMs = NOT_READ

/** A part of a turn begins: what is read from now on holds until the next call. */
export const holdTime = (): void => begin(true)

/** The turn is over: the clocks are asked. */
export const letTimeGo = (): void => begin(false)

const begin = (holds: boolean): void => {
  isHeld = holds
  monotonicMs = NOT_READ
  wallMs = NOT_READ
}

/** Monotonic milliseconds, with fractions (`performance.now`). Never goes back. */
export const turnMs = (): number => (monotonicMs === NOT_READ ? freshTurnMs() : monotonicMs)

/** The same, read now; who asks behind this has no earlier one, of either clock. */
export const freshTurnMs = (): number => {
  const nowMs = performance.now()
  wallMs = NOT_READ
  if (isHeld) monotonicMs = nowMs
  return nowMs
}

/** Unix milliseconds (`Date.now`). */
export const turnWallMs = (): number => {
  if (wallMs !== NOT_READ) return wallMs
  const nowMs = Date.now()
  if (isHeld) wallMs = nowMs
  return nowMs
}
