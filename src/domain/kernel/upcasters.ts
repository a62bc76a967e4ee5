// Reads events of earlier shapes as events of today's shape. Applied to every event when it is read (control decisions
// and enveloped events alike), so folds and read models see only the newest types. In `domain/` and not in `log/`,
// because an upcaster depends on event types and `log/` is independent of them.
import type { Decision, EventRecord } from './decision.ts'

/** Pure and total: today's form of an event of an earlier type. The result may itself be of an earlier type. */
export type Upcaster = (data: Readonly<Record<string, unknown>>) => EventRecord

/** Bound of the upcasters applied to one event: more would be a circle. */
const MAX_STEPS = 32

/** Creates the reading function of a table: earlier type -> upcaster. */
export const createUpcast = (table: Readonly<Record<string, Upcaster>>): ((event: EventRecord) => EventRecord) => {
  const upcasters = new Map(Object.entries(table))
  return (event) => {
    let current = event
    for (let step = 0; step < MAX_STEPS; step++) {
      const upcaster = upcasters.get(current.type)
      if (upcaster === undefined) return current
      current = upcaster(current.data)
    }
    throw new RangeError(`the upcasters of ${event.type} go in a circle`)
  }
}

/**
 * Earlier type -> upcaster. Entries are only ever added: the log keeps its records for ever. Empty while every type is
 * as it was first shipped. CONTRIBUTING, "Change an event", describes when one is needed;
 * `tests/domain/event-fixtures.test.ts` reads one recorded line of every type.
 */
export const UPCASTERS: Readonly<Record<string, Upcaster>> = {}

/** An event in the shape of today's types. */
export const upcast = createUpcast(UPCASTERS)

/** A decision with today's events; the same object when all of them are. */
export const renewed = (decision: Decision): Decision => {
  if (!decision.events.some(({ type }) => type in UPCASTERS)) return decision
  const events = decision.events.map(upcast)
  return events.every((event, index) => event === decision.events[index]) ? decision : { ...decision, events }
}
