// What is asked of every decision of the admin surface, on the very state on which it is made: nothing slips in between.

import { requireWayIn } from '../../domain/access/last-administrator.ts'
import { requireWriteThawed } from '../../domain/steering/freeze.ts'
import type { Commit, CommitRequest } from '../../state/port.ts'

type Decide = CommitRequest['decide']
/** Throws Rejection where these events may not be. Pure. */
type Check = (
  state: Parameters<Decide>[0],
  events: ReturnType<Decide>,
  actor: CommitRequest['actor'],
  nowMs: number,
) => void

/** Refused while frozen: also by a freeze that counted while the request was under way. */
export const thawed: Check = (state, events, actor, nowMs) => requireWriteThawed(state, actor, events, nowMs)

/** Refused when nobody could administer any more. */
export const lasting: Check = (state, events, _actor, nowMs) => requireWayIn(state, events, nowMs)

/** A commit whose decisions are held against these, in this order. */
export const checkedCommit =
  (commit: Commit, nowMs: () => number, ...checks: readonly Check[]): Commit =>
  (request) =>
    commit({
      ...request,
      decide(state) {
        const events = request.decide(state)
        for (const check of checks) check(state, events, request.actor, nowMs())
        return events
      },
    })
