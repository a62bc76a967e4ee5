// What the steps of seeding share: their dependencies, their report, and how all of them become one decision.
import type { Bootstrap } from '../../domain/bootstrap.ts'
import { type ControlReader, ControlState, foldDecision } from '../../domain/control.ts'
import { DECISION_LIMITS, type Decision, type EventRecord, GENESIS } from '../../domain/kernel/decision.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import { SEEDER_ACTOR } from '../../domain/kernel/seeder.ts'
import type { RowChange } from '../../domain/kernel/tables.ts'
import { type OverrideRow, overrideKey } from '../../domain/steering/override-row.ts'
import type { IdPrefix } from '../../lib/crypto/ids.ts'
import type { Commit, LiveState } from '../../state/port.ts'
import type { KindTable } from '../models/kind-table.ts'
import type { ModelCatalogue } from '../models/model-listing.ts'

export interface SeedDeps {
  readonly live: Pick<LiveState, 'control'>
  readonly commit: Commit
  readonly kindTable: KindTable
  readonly modelCatalogue: ModelCatalogue
  /** The environment, for `*_API_KEY` and `key_env`. */
  env(name: string): string | undefined
  readonly minKeyLength: number
  newId(prefix: IdPrefix): string
  newApiKey(): string
  nowMs(): number
}

export interface SeedInput {
  readonly bootstrap: Bootstrap
  /** `GATEWAY_BOOTSTRAP_ADMIN_KEY`, `GATEWAY_BOOTSTRAP_INFERENCE_KEY`; null: minted at the first start. */
  readonly adminKey: string | null
  readonly inferenceKey: string | null
}

export interface SeedReport {
  /** Keys that this process made and that count: to be shown once, on the terminal, and nowhere else. */
  readonly minted: { readonly name: string; readonly scopes: readonly string[]; readonly plaintext: string }[]
  /**
   * Of `GATEWAY_BOOTSTRAP_ADMIN_KEY` and `GATEWAY_BOOTSTRAP_INFERENCE_KEY` those whose text opens a key, with the key's
   * scopes now.
   */
  readonly working: { readonly variable: string; readonly scopes: readonly string[] }[]
  /** One line each, for people: what could not be seeded, what the settings no longer name. */
  readonly notes: string[]
}

/**
 * The events that one entry of the settings needs on a given state: [] when the row is there already. Pure. A Rejection
 * becomes a note and stops no other step.
 */
export interface SeedStep {
  readonly what: string
  /** The step leaves out what another row has, and is decided again after the others, which may have released it. */
  readonly isDeferrable?: boolean
  decide(state: ControlReader): readonly EventRecord[]
}

/** Room for the rest of a decision: parent, time, actor, MAC. */
const FRAME_BYTES = 2_048
const MAX_BYTES = DECISION_LIMITS.bytes - FRAME_BYTES
/**
 * The state may move while it is decided; a process that does not get through in so many passes goes on at the next
 * start.
 */
const MAX_PASSES = 4
/** How often refused steps are tried again within one decision: each time a step may have made room for another. */
const MAX_RETRIES = 32

interface Decided {
  readonly events: readonly EventRecord[]
  readonly notes: readonly string[]
  /** The first step that did not fit. */
  readonly next: number
  /** The state with these events. */
  readonly state: ControlReader
  /** Which rows a step has written, and which steps were refused. */
  readonly written: ReadonlyMap<number, readonly string[]>
  readonly refused: ReadonlyMap<number, string>
}

const OVERRIDES = 'overrides '

/** The subject of a change: a row; of an override, each of which is a row of its own, what it overrides. */
const aboutOf = ({ table, id, after }: RowChange): string => {
  if (table !== 'overrides' || after === null) return `${table} ${id}`
  const { kind, target, tenant_id } = after as OverrideRow
  return `${OVERRIDES}${overrideKey(kind, target, tenant_id)}`
}

/**
 * Decides steps one on top of the other, starting from one of them: as many as fit into one decision, or, without a
 * bound, all. Refused steps, and steps that left something out, are tried again after the others as long as one of them
 * succeeds: a later entry may have released its alias.
 */
export const decideSteps = (
  base: ControlReader,
  steps: readonly SeedStep[],
  { from = 0, bounded = true, nowMs }: { from?: number; bounded?: boolean; nowMs: number },
): Decided => {
  const state = new ControlState(base)
  const events: EventRecord[] = []
  const written = new Map<number, readonly string[]>()
  const refused = new Map<number, string>()
  const at = new Date(nowMs).toISOString()
  let bytes = 0
  /** False: it does not fit. */
  const take = (step: number): boolean => {
    const { what, decide } = steps[step]!
    try {
      const more = decide(state)
      const size = more.reduce((sum, event) => sum + Buffer.byteLength(JSON.stringify(event)) + 1, 0)
      if (size > MAX_BYTES) throw new Rejection('invalid', `it is too large: at most ${MAX_BYTES} bytes of JSON`)
      const isFull = bytes + size > MAX_BYTES || events.length + more.length > DECISION_LIMITS.events
      if (more.length > 0 && bounded && isFull) return false
      refused.delete(step)
      if (more.length === 0) return true
      bytes += size
      events.push(...more)
      const decision: Decision = { parent: GENESIS, at, actor: SEEDER_ACTOR, cause: null, v: 1, events: more }
      const { changes } = foldDecision(state, decision, GENESIS, nowMs)
      written.set(step, [...new Set([...(written.get(step) ?? []), ...changes.map(aboutOf)])])
    } catch (error) {
      if (!(error instanceof Rejection)) throw error
      refused.set(step, `${what}: ${error.message}`)
    }
    return true
  }
  let next = from
  while (next < steps.length && take(next)) next++
  const deferrable = steps.flatMap(({ isDeferrable }, step) => (isDeferrable === true && step >= from ? [step] : []))
  for (let retry = 0; next === steps.length && retry < MAX_RETRIES; retry++) {
    const before = { refused: refused.size, events: events.length }
    for (const step of new Set([...deferrable, ...refused.keys()])) if (!take(step)) break
    if (refused.size === before.refused && events.length === before.events) break
  }
  const notes = [...refused].sort(([a], [b]) => a - b).map(([, note]) => note)
  return { events, notes, next, state, written, refused }
}

/**
 * Steps that undo what an earlier one does, which only the state shows: entries that name one thing in two ways.
 * Without this each would win at every second start; now the first one wins.
 */
const withoutConflicts = (
  base: ControlReader,
  steps: readonly SeedStep[],
  nowMs: number,
): { readonly steps: readonly SeedStep[]; readonly notes: readonly string[] } => {
  const notes: string[] = []
  let left = steps
  for (;;) {
    const first = decideSteps(base, left, { bounded: false, nowMs })
    if (first.events.length === 0) return { steps: left, notes }
    const undone = new Map<number, string>()
    const lastWriter = new Map<string, number>()
    for (const [step, rows] of first.written) {
      for (const row of rows) {
        const before = lastWriter.get(row)
        // Each step writes one override of its own.
        if (row.startsWith(OVERRIDES) && before !== undefined && before !== step) undone.set(step, left[before]!.what)
        lastWriter.set(row, step)
      }
    }
    for (const [step, rows] of decideSteps(first.state, left, { bounded: false, nowMs }).written) {
      if (first.refused.has(step)) continue // an entry below it made room for it
      for (const row of rows) {
        const writer = lastWriter.get(row)
        if (writer !== undefined && writer > step) undone.set(writer, left[step]!.what)
      }
    }
    if (undone.size === 0) return { steps: left, notes }
    for (const [step, other] of undone) notes.push(`${left[step]!.what}: left out, ${other} is about the same`)
    left = left.filter((_, step) => !undone.has(step))
  }
}

/**
 * All steps in one decision, in several only when they do not fit into one. Throws CommitFailure when the log is not
 * reachable.
 */
export const commitSteps = async (all: readonly SeedStep[], deps: SeedDeps, report: SeedReport): Promise<void> => {
  const { live, commit, nowMs } = deps
  const { steps, notes: conflicts } = withoutConflicts(live.control, all, nowMs())
  let notes = new Set<string>()
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    notes = new Set() // a step that a later entry made possible is no longer refused
    for (let from = 0; from < steps.length; ) {
      // Decided anew whenever another writer came first.
      let decided = null as Decided | null
      const decide = (state: ControlReader) => {
        decided = decideSteps(state, steps, { from, nowMs: nowMs() })
        return decided.events
      }
      await commit({ actor: SEEDER_ACTOR, decide })
      const { next, notes: more } = decided ?? { next: steps.length, notes: [] }
      for (const note of more) notes.add(note)
      from = next
    }
    const left = decideSteps(live.control, steps, { nowMs: nowMs() })
    if (left.events.length > 0) continue
    notes = new Set(left.notes)
    break
  }
  report.notes.push(...conflicts, ...notes)
}
