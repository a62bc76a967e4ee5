// The time of this process: its clock, less what that is known to run ahead of the log's time. Dates of records and
// comparisons with expiries use it; signatures for vendors use the clock itself.

let aheadMs = 0

/** Unix milliseconds. */
export const wallMs = (): number => Date.now() - aheadMs

/** How far the clock of this process runs ahead of what `wallMs` returns; negative: behind. */
export const correctWallClock = (byMs: number): void => {
  aheadMs = byMs
}
