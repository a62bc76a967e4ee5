// No write of the admin surface locks everybody out.
import { requireWayIn } from '../../domain/way-in.ts'
import type { Commit } from '../../state/port.ts'

/** A commit whose decisions are refused when nobody could administer any more, on the very state on which they are made. */
export const lastingCommit =
  (commit: Commit, nowMs: () => number): Commit =>
  (request) =>
    commit({
      ...request,
      decide(state) {
        const events = request.decide(state)
        requireWayIn(state, events, nowMs())
        return events
      },
    })
