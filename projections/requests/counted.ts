// How outcomes change what is counted, closed days included: what a closed day includes is not counted for that day
// again.
import { count, type Tally } from '../usage/cells.ts'
import type { ClosedDays } from '../usage/closed.ts'
import type { SettledRow } from './fold.ts'
import type { StoredOutcome } from './stored.ts'

export const placeOf = ({ atMs, place: { partition, offset } }: SettledRow) => ({ atMs, partition, offset })

/** An outcome that a closed day includes is not counted for that day again. */
export const countFresh = (tally: Tally, closed: ClosedDays, row: SettledRow): void => {
  count(tally, row.data)
  if (closed.has(placeOf(row))) count(tally.days, row.data, -1)
}

/** A closed day that includes both has counted the one that holds. */
export const takeBack = (tally: Tally, closed: ClosedDays, { held, by }: Replaced): void => {
  count(tally, held.facts, -1)
  if (closed.has(held) && closed.has(placeOf(by))) count(tally.days, held.facts)
}

/** A closed day that includes the superseded settlement, and not the one that holds, has counted the superseded one. */
export const takeFromDay = (tally: Tally, closed: ClosedDays, { row, held }: Outdone): void => {
  if (closed.has(placeOf(row)) && !closed.has(held)) count(tally.days, row.data, -1)
}

/** The stored settlement that is no longer the outcome. */
export interface Replaced {
  readonly held: StoredOutcome
  readonly by: SettledRow
}

/** The new settlement that is not the outcome. */
export interface Outdone {
  readonly row: SettledRow
  readonly held: StoredOutcome
}
