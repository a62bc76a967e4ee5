// What a write was accepted with all the same: names that nobody has yet.

/** The member of an answer that holds them; dropped from a body, so that what a write answered can be sent again. */
export const WARNINGS = ['warnings'] as const

/** The row with its warnings, or the bare row when there are none. */
export const withWarnings = <Row extends object>(row: Row, warnings: readonly string[]): Row =>
  warnings.length === 0 ? row : { ...row, warnings }
