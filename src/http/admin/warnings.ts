// Warnings of an accepted write: references to names that do not exist yet.

/** The member of a response that holds them. Dropped from a body, so that the response of a write can be sent again. */
export const WARNINGS = ['warnings'] as const

/** The row with its warnings, or the bare row when there are none. */
export const withWarnings = <Row extends object>(row: Row, warnings: readonly string[]): Row =>
  warnings.length === 0 ? row : { ...row, warnings }
