// Checks of every decision of the admin surface, made on the very state on which the decision is made, so that no other
// decision comes between.

import { requireAdministrator } from '../../domain/access/last-administrator.ts'
import { requireWriteThawed } from '../../domain/steering/freeze.ts'
import type { Commit, CommitRequest } from '../../state/port.ts'

type Decide = CommitRequest['decide']
/** Throws Rejection when these events are not allowed. Pure. */
type Check = (
  state: Parameters<Decide>[0],
  events: ReturnType<Decide>,
  actor: CommitRequest['actor'],
  nowMs: number,
) => void

/** Rejects while frozen, also by a freeze that counted after the request arrived. */
export const notFrozen: Check = (state, events, actor, nowMs) => requireWriteThawed(state, actor, events, nowMs)

/** Rejects events after which no administrator would be left. */
export const keepsAdministrator: Check = (state, events, _actor, nowMs) => requireAdministrator(state, events, nowMs)

/** A commit whose decisions must pass these checks, in this order. */
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
