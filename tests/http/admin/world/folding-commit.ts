// A commit that folds at once: decisions without a log, for tests of the layers above it. Its results are those of the
// real one.
import { ControlState, eventIsValid, foldDecision } from '../../../../src/domain/control.ts'
import { DECISION_LIMITS, type EventRecord } from '../../../../src/domain/kernel/decision.ts'
import { Rejection } from '../../../../src/domain/kernel/rejection.ts'
import { unchangedWrite } from '../../../../src/domain/unchanged.ts'
import { sha256Hex } from '../../../../src/lib/crypto/digest.ts'
import type { Commit, CommitRequest, FoldedBatch, LiveState } from '../../../../src/state/port.ts'

export interface FoldingCommit {
  readonly state: ControlState
  readonly live: LiveState
  readonly commit: Commit
  /** Every event that counted, in order. */
  readonly events: EventRecord[]
  apply(events: readonly EventRecord[]): void
}

export const foldingCommit = (nowMs: () => number): FoldingCommit => {
  const state = new ControlState()
  const events: EventRecord[] = []
  let tip = '0'.repeat(64)
  let height = 0
  const listeners = new Set<(batch: FoldedBatch) => void>()
  const fold = (actor: CommitRequest['actor'], cause: CommitRequest['cause'], more: readonly EventRecord[]) => {
    for (const event of more) if (!eventIsValid(event)) throw new Error(`${event.type} does not match its schema`)
    if (JSON.stringify(more).length > DECISION_LIMITS.bytes - 1_000) throw new Error('the decision is too large')
    tip = sha256Hex(`decision ${++height}`)
    events.push(...more)
    const at = new Date(nowMs()).toISOString()
    const decision = { parent: '', at, actor, cause: cause ?? null, v: 1, events: more } as const
    const folded = foldDecision(state, decision, tip, height)
    for (const listener of listeners) listener({ changes: folded.changes, refused: [] })
    return folded
  }
  const commit: Commit = async ({ actor, cause, decide, about }) => {
    const known = cause == null ? undefined : state.table('causes').get(cause.id)
    if (known !== undefined) {
      if (known.body !== cause!.body) throw new Rejection('conflict', 'used with another body', 'Idempotency-Key')
      const { revision, changes, removed } = known
      return { revision, changed: true, repeated: true, changes, removed }
    }
    const more = decide(state)
    const confirmed = cause == null || more.length > 0 ? null : unchangedWrite(state, about?.(state))
    if (confirmed !== null) fold(actor, cause, [confirmed])
    if (more.length === 0) return { revision: tip, changed: false, repeated: false, changes: [], removed: {} }
    const { changes } = fold(actor, cause, more)
    const removed: Record<string, number> = {}
    for (const { table, after } of changes) if (after === null) removed[table] = (removed[table] ?? 0) + 1
    return { revision: tip, changed: true, repeated: false, changes, removed }
  }
  const live = {
    control: state,
    status: () => ({ tip, logAtMs: 0, staleMs: 0, phase: 'live', serves: true }),
    reached: async (revision: string) => revision === tip,
    refused: new Set(),
    subscribe(listener: (batch: FoldedBatch) => void) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    close: async () => {},
  } as unknown as LiveState
  return { state, live, commit, events, apply: (more) => void fold({ type: 'system', id: 'test' }, null, more) }
}
