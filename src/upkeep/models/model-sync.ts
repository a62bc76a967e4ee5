// Fills the registry from a provider's own listing: missing names become active rows managed by the API, existing ones
// stay as they are.

import type { ControlReader } from '../../domain/control.ts'
import type { Actor, EventRecord } from '../../domain/kernel/decision.ts'
import type { ManagedBy } from '../../domain/kernel/fields.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import { DEFAULT_PRIORITY, decideModel, ModelName, naturalKey } from '../../domain/registry/model.ts'
import type { ProviderRow } from '../../domain/registry/provider.ts'
import { cutDetail, type LeftOut, MOST_LEFT_OUT } from '../../domain/registry/provider-test.ts'
import { Value } from '../../lib/schema/schema.ts'
import { isStorable, nameError } from '../../lib/text/storable-text.ts'
import type { ListedModel } from '../../providers/port.ts'
import type { Commit } from '../../state/port.ts'
import type { ModelFacts } from './model-facts.ts'

export interface SyncSummary {
  readonly created: number
  readonly skipped: number
  readonly total: number
  /** The source of the created models' capabilities. */
  readonly capability_source: string
  readonly capabilities_filled: number
  /** Which listed names could not be registered, and why; absent when all could. */
  readonly left_out?: LeftOut[]
  /** The decisions that created them, in their order; absent when nothing was created. */
  readonly revisions?: string[]
}

export interface SyncDeps {
  readonly commit: Commit
  newModelId(): string
  /** The facts of one listed model. */
  factsOf(provider: ProviderRow, listed: ListedModel): Promise<ModelFacts>
}

/** A longer list is cut: the registry is for models that people choose from. */
const MAX_LISTED = 4_096
/** Rows in one decision: 64 of the largest usual ones stay below the 64 KiB of a record. */
const ROWS_PER_DECISION = 48

/**
 * Inserts what is missing, in decisions of bounded size; each is all or nothing, and a repeat goes on where it ended.
 */
export const syncModels = async (
  provider: ProviderRow,
  listing: readonly ListedModel[],
  by: { readonly actor: Actor; readonly managedBy: ManagedBy },
  deps: SyncDeps,
): Promise<SyncSummary> => {
  const commands = await commandsOf(provider, listing, by.managedBy, deps)
  let created = 0
  let filled = 0
  let source = 'kind'
  const leftOut: LeftOut[] = []
  const revisions: string[] = []
  for (let start = 0; start < commands.length; start += ROWS_PER_DECISION) {
    const chunk = commands.slice(start, start + ROWS_PER_DECISION)
    let refused: LeftOut[] = []
    const { changes, changed, revision } = await deps.commit({
      actor: by.actor,
      decide(state) {
        const missing = missingModels(state, chunk)
        refused = missing.refused
        return missing.events
      },
    })
    leftOut.push(...refused)
    if (changed) revisions.push(revision)
    for (const { after } of changes) {
      const row = after as ModelFacts | null
      if (row === null) continue
      created++
      if (row.capabilities.length > 0) filled++
      if (row.capability_source !== 'kind') source = row.capability_source
    }
  }
  return {
    created,
    skipped: listing.length - created,
    total: listing.length,
    capability_source: source,
    capabilities_filled: filled,
    ...leftOutOf(leftOut, listing),
    ...(revisions.length === 0 ? {} : { revisions }),
  }
}

/**
 * The names that were left out: those with a reason of their own, then the count of those that cannot be shown by name.
 */
const leftOutOf = (refused: readonly LeftOut[], listing: readonly ListedModel[]): { left_out?: LeftOut[] } => {
  const unusable = listing.slice(0, MAX_LISTED).filter((listed) => !canBeNamed(listed)).length
  const counted = [
    [refused.length - MOST_LEFT_OUT, 'further names are taken likewise'],
    [unusable, 'are no names that a model may have'],
    [listing.length - MAX_LISTED, `were listed behind the first ${MAX_LISTED}`],
  ] as const
  const rest = counted.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`)
  const shown = refused.slice(0, MOST_LEFT_OUT)
  if (rest.length > 0) shown.push({ name: null, reason: rest.join('; ') })
  return shown.length === 0 ? {} : { left_out: shown }
}

/** Whether it is a name that a write of the API would take. */
const canBeNamed = ({ name }: ListedModel): boolean =>
  Value.Check(ModelName, name) && isStorable(name) && nameError(name) === null

type Create = Parameters<typeof decideModel>[1] & { do: 'create' }

/** The commands that make each listed model that can be registered, in the order of the listing. */
export const commandsOf = async (
  provider: ProviderRow,
  listing: readonly ListedModel[],
  managedBy: ManagedBy,
  deps: Pick<SyncDeps, 'newModelId' | 'factsOf'>,
): Promise<Create[]> => {
  const usable = listing.slice(0, MAX_LISTED).filter(canBeNamed)
  return Promise.all(
    usable.map(async (listed) => ({
      do: 'create' as const,
      id: deps.newModelId(),
      name: listed.name,
      provider_id: provider.id,
      status: 'active' as const,
      managed_by: managedBy,
      upstream_model: listed.name,
      priority: DEFAULT_PRIORITY,
      aliases: [],
      ...(await deps.factsOf(provider, listed)),
    })),
  )
}

/**
 * The rows that are not there yet. A name that is an alias of another model, or of an endpoint scope of all tenants, is
 * left out: routing would change under its callers.
 */
const missingModels = (
  state: ControlReader,
  commands: readonly Create[],
): { readonly events: EventRecord[]; readonly refused: LeftOut[] } => {
  const models = state.table('models')
  const seen = new Set<string>()
  const refused: LeftOut[] = []
  const events = commands.flatMap((command) => {
    const key = naturalKey(command.provider_id, command.name)
    if (seen.has(key) || models.find('natural', key).length > 0) return []
    seen.add(key)
    try {
      return decideModel(state, command)
    } catch (error) {
      if (!(error instanceof Rejection) || error.reason !== 'conflict') throw error
      refused.push({ name: command.name, reason: cutDetail(error.message) })
      return []
    }
  })
  return { events, refused }
}
