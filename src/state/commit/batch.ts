// One round of the commit queue: decides the waiting commands, one on top of the other, on an overlay of the state that
// is thrown away.
import { CAUSE_RETENTION_MS } from '../../domain/cause.ts'
import { ControlState, eventIsActive, eventIsValid, type Folded, foldDecision } from '../../domain/control.ts'
import { type Decision, type EventRecord, writeDecision } from '../../domain/kernel/decision.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import { unchangedWrite } from '../../domain/unchanged.ts'
import { CommitFailure, type CommitRequest, type CommitResult } from '../port.ts'

/** Bounds of one append. */
export const BATCH_DECISIONS = 256
export const BATCH_BYTES = 256 * 1024

/** A decision that was, or may have been, sent for a command. */
export interface Attempt {
  readonly id: string
  readonly bytes: Uint8Array
  /**
   * The tip on which its batch was decided, and the decisions before it in the batch: while the tip is one of these it
   * may still count.
   */
  readonly base: string
  readonly before: readonly string[]
  /** Its changes: as decided, then as this process folded it. */
  folded: Folded
  /** It only records its cause for all instances: nothing had to change. */
  readonly confirms: boolean
}

/** A command under way. */
export interface Waiting {
  readonly request: CommitRequest
  readonly deadlineMs: number
  /** The end of the log, requested after the command came in: a refusal counts only once that much is folded. */
  barrier: number | null
  isRequestingBarrier: boolean
  /** Sent, and not known to be lost. */
  attempts: Attempt[]
  done: boolean
  finish(result: CommitResult | Error): void
}

/** The result of deciding one command on the state. */
export type DecideResult =
  | { readonly kind: 'decision'; readonly attempt: Attempt }
  /** Refused, or nothing to change: final only on the newest state, with nothing uncommitted below it. */
  | { readonly kind: 'final'; readonly result: CommitResult | Rejection }
  /** Cannot be written whatever the state is. */
  | { readonly kind: 'failed'; readonly error: Error }

export interface BatchDeps {
  readonly state: ControlState
  readonly tip: string
  readonly logAtMs: number
  readonly nowMs: number
  readonly macKey: Uint8Array
  readonly instance: string
}

export class Batch {
  readonly attempts: Attempt[] = []
  readonly #overlay: ControlState
  #bytes = 0

  constructor(readonly deps: BatchDeps) {
    this.#overlay = new ControlState(deps.state)
  }

  /** Decides one more command; null when the batch is full. */
  decide(request: CommitRequest): DecideResult | null {
    if (this.attempts.length === BATCH_DECISIONS) return null
    const { tip, logAtMs } = this.deps
    const top = this.attempts.at(-1)?.id ?? tip
    try {
      const repeated = repeatOf(this.#overlay, request, logAtMs)
      if (repeated !== null) return { kind: 'final', result: repeated }
      const events = request.decide(this.#overlay)
      if (events.length > 0) {
        requireWritable(this.#overlay, events)
        return this.#write(request, events, top, false)
      }
      const confirmed = confirmation(this.#overlay, request)
      if (confirmed === null) return { kind: 'final', result: unchanged(top) }
      return this.#write(request, [confirmed], top, true)
    } catch (error) {
      if (error instanceof Rejection) return { kind: 'final', result: error }
      return { kind: 'failed', error: error instanceof Error ? error : new Error(String(error)) }
    }
  }

  #write(
    { actor, cause }: CommitRequest,
    events: readonly EventRecord[],
    parent: string,
    confirms: boolean,
  ): DecideResult | null {
    const { nowMs, macKey, tip, instance: by } = this.deps
    const decision: Decision = {
      parent,
      at: new Date(nowMs).toISOString(),
      actor,
      by,
      cause: cause ?? null,
      v: 1,
      events,
    }
    const { id, bytes } = written(decision, macKey)
    if (this.#bytes + bytes.length > BATCH_BYTES) return null
    const folded = foldDecision(this.#overlay, decision, id, Math.max(nowMs, this.deps.logAtMs))
    if (folded.malformed !== null) throw new Error(`a decision that would change nothing: ${folded.malformed}`)
    this.#bytes += bytes.length
    const attempt = { id, bytes, base: tip, before: this.attempts.map((earlier) => earlier.id), folded, confirms }
    this.attempts.push(attempt)
    return { kind: 'decision', attempt }
  }
}

const written = (decision: Decision, macKey: Uint8Array) => {
  try {
    return writeDecision(decision, macKey)
  } catch (error) {
    throw error instanceof RangeError ? new CommitFailure('too_large', error.message) : error
  }
}

const requireWritable = (state: ControlState, events: readonly EventRecord[]): void => {
  for (const event of events) {
    if (!eventIsValid(event))
      throw new Error(`an event of the type ${event.type} does not match its own schema: not written`)
    if (!eventIsActive(state, event.type)) {
      throw new CommitFailure('refused', `events of the type ${event.type} wait until all live instances know them`)
    }
  }
}

/**
 * The events that record the cause of a command that had nothing to change; null while some live instances do not
 * support such events.
 */
const confirmation = (state: ControlState, { cause, about }: CommitRequest): EventRecord | null => {
  if (cause === null || cause === undefined || about === undefined) return null
  const event = unchangedWrite(state, about(state))
  return event !== null && eventIsActive(state, event.type) ? event : null
}

/** The result of the earlier decision with the same cause, or null. Throws Rejection when that one had another body. */
const repeatOf = (state: ControlState, { cause }: CommitRequest, logAtMs: number): CommitResult | null => {
  if (cause === null || cause === undefined) return null
  const row = state.table('causes').get(cause.id)
  if (row === undefined || row.logAtMs <= logAtMs - CAUSE_RETENTION_MS) return null
  if (row.body !== cause.body) {
    throw new Rejection('conflict', 'this Idempotency-Key was used with another body', 'Idempotency-Key')
  }
  return { revision: row.revision, changed: true, repeated: true, changes: row.changes, removed: row.removed }
}

const unchanged = (tip: string): CommitResult => ({
  revision: tip,
  changed: false,
  repeated: false,
  changes: [],
  removed: {},
})

/** The result of a decision that counted. */
export const resultOf = ({ id, folded: { changes }, confirms }: Attempt): CommitResult => {
  const removed: Record<string, number> = {}
  for (const { table, after } of changes) if (after === null) removed[table] = (removed[table] ?? 0) + 1
  return { revision: id, changed: !confirms, repeated: false, changes, removed }
}

/** Milliseconds until the last of their deadlines, at least 1. */
export const longestMs = (waiting: readonly Waiting[]): number =>
  Math.max(1, ...waiting.map(({ deadlineMs }) => deadlineMs - performance.now()))
