// What the steps of seeding share: what they are given, what they report, and how one of them is decided.
import type { Bootstrap } from '../domain/bootstrap.ts'
import type { ControlReader } from '../domain/control.ts'
import type { Actor, EventRecord } from '../domain/decision.ts'
import { Rejection } from '../domain/rejection.ts'
import type { IdPrefix } from '../lib/ids.ts'
import type { Commit, LiveState } from '../state/port.ts'
import type { KindTable } from './kind-table.ts'
import type { ModelCatalogue } from './model-listing.ts'

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
  /** One line each, for people: what could not be seeded, what the settings no longer name. */
  readonly notes: string[]
}

/** In whose name it is decided. */
export const SEEDER_ACTOR: Actor = { type: 'system', id: 'bootstrap' }

/** Runs a decision; a refusal becomes a note, so that one bad entry does not stop the others. Commit failures are thrown. */
export const seeded = async (
  what: string,
  deps: SeedDeps,
  report: SeedReport,
  decide: (state: ControlReader) => readonly EventRecord[],
): Promise<void> => {
  try {
    await deps.commit({ actor: SEEDER_ACTOR, decide })
  } catch (error) {
    if (!(error instanceof Rejection)) throw error
    report.notes.push(`${what}: ${error.message}`)
  }
}
