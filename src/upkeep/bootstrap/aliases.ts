// Aliases that entries of `bootstrap:` give to models and endpoint scopes. An alias that another row has does not hold
// up the rest of an entry: the entry is seeded without it, releases the aliases that it no longer lists, and takes the
// missing one once the other row has released it. So two entries can exchange aliases within one start.
import type { Bootstrap } from '../../domain/bootstrap.ts'
import type { ControlReader } from '../../domain/control.ts'
import type { EventRecord } from '../../domain/kernel/decision.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import { shadowedAliases } from '../../domain/references.ts'
import { decideModel, naturalKey } from '../../domain/registry/model.ts'
import { decideEndpoint, endpointKey } from '../../domain/steering/endpoint.ts'
import { modelEntries, tenantOf } from './names.ts'
import { providerNamed } from './providers.ts'

const isSameAlias = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase()

/** Whether the command was refused since another row has the alias. */
const isTaken = (error: unknown): error is Rejection =>
  error instanceof Rejection && error.reason === 'conflict' && error.param === 'aliases'

/** Why an alias cannot be taken, or null. Throws a rejection that has another cause. */
const refusalOf = (decide: () => unknown): string | null => {
  try {
    decide()
    return null
  } catch (error) {
    if (!isTaken(error)) throw error
    return error.message
  }
}

/**
 * Decides with as many of the wanted aliases as can be taken. Aliases that the row has already (`had`) go before new
 * ones.
 */
export const decideWithAliases = (
  wanted: readonly string[],
  had: readonly string[],
  decide: (aliases: string[]) => EventRecord[],
): EventRecord[] => {
  try {
    return decide([...wanted])
  } catch (error) {
    if (!isTaken(error)) throw error
  }
  const isHad = (alias: string) => had.some((own) => isSameAlias(own, alias))
  const taken = new Set<string>()
  const without = () => wanted.filter((alias) => taken.has(alias))
  for (const alias of [...wanted.filter(isHad), ...wanted.filter((alias) => !isHad(alias))]) {
    taken.add(alias)
    if (refusalOf(() => decide(without())) !== null) taken.delete(alias)
  }
  return decide(without())
}

/** The aliases of entries that are not in effect, once everything is seeded. */
export const aliasNotes = (bootstrap: Bootstrap, state: ControlReader): string[] => {
  const { endpoints = [] } = bootstrap
  return [
    ...modelEntries(bootstrap).flatMap(({ provider, name, aliases = [] }) => {
      const providerId = aliases.length === 0 ? undefined : providerNamed(state, provider)?.id
      const [row] = state.table('models').findRows('natural', naturalKey(providerId ?? '', name))
      if (row?.managed_by !== 'bootstrap') return []
      const decide = (more: string) =>
        decideModel(state, { do: 'change', id: row.id, managed_by: 'bootstrap', aliases: [...row.aliases, more] })
      const missing = lacking(aliases, [...row.aliases, row.name])
      return notesOf(`bootstrap.models "${name}" of "${provider}"`, missing, decide)
    }),
    ...endpoints.flatMap(({ tenant, slug, aliases = [] }) => {
      const [row] = state.table('endpoints').findRows('slug', endpointKey(tenantOf(state, tenant), slug))
      if (row?.managed_by !== 'bootstrap') return []
      const { id, tenant_id, name, description, enabled, overrides } = row
      const as = {
        id,
        slug: row.slug,
        tenant_id,
        name,
        description,
        enabled,
        overrides,
        managed_by: 'bootstrap',
      } as const
      const decide = (more: string) => decideEndpoint(state, { do: 'upsert', ...as, aliases: [...row.aliases, more] })
      const what = `bootstrap.endpoints "${slug}"`
      const shadowed = shadowedAliases(state, row.aliases).map((warning) => `${what}: ${warning}`)
      return [...notesOf(what, lacking(aliases, row.aliases), decide), ...shadowed]
    }),
  ]
}

const lacking = (wanted: readonly string[], had: readonly string[]): readonly string[] =>
  wanted.filter((alias) => !had.some((own) => isSameAlias(own, alias)))

const notesOf = (what: string, missing: readonly string[], decide: (alias: string) => unknown): string[] =>
  missing.flatMap((alias) => {
    const why = refusalOf(() => decide(alias))
    return why === null ? [] : [`${what}: it goes without the alias "${alias}": ${why}`]
  })
