// Endpoint scopes and overrides of `bootstrap:`. What the API wrote since is left alone: an override that an operator
// lifted stays lifted.
import type { Bootstrap, BootstrapEndpoint, BootstrapOverride } from '../../domain/bootstrap.ts'
import type { ControlReader } from '../../domain/control.ts'
import type { EventRecord } from '../../domain/kernel/decision.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import { isSeeder } from '../../domain/kernel/seeder.ts'
import { canonicalJson } from '../../domain/kernel/tables.ts'
import { endpointWarnings } from '../../domain/references.ts'
import { modelOf } from '../../domain/registry/model-row.ts'
import {
  decideEndpoint,
  type EndpointOverrides,
  endpointKey,
  NOTHING_OVERRIDDEN,
} from '../../domain/steering/endpoint.ts'
import { decideOverride } from '../../domain/steering/override.ts'
import { isInForce, type OverrideRow, overrideKey } from '../../domain/steering/override-row.ts'
import { overrideKindOf, overrideValueOf, targetOf } from '../../domain/steering/override-target.ts'
import { decideWithAliases } from './aliases.ts'
import { type KeyNaming, keyNamingOf, keyOf, momentOf, tenantOf } from './names.ts'
import type { SeedDeps, SeedInput, SeedStep } from './step.ts'
import { unlistedLine } from './unlisted.ts'

/** They come after models and keys, which they name, and before budgets and cache rules, which name endpoint scopes. */
export const steeringSteps = ({ bootstrap }: SeedInput, deps: Pick<SeedDeps, 'newId' | 'nowMs'>): SeedStep[] => {
  const endpoints = (bootstrap.endpoints ?? []).map((entry): SeedStep => {
    const id = deps.newId('end')
    const isDeferrable = entry.aliases !== undefined && entry.aliases.length > 0
    return {
      what: `bootstrap.endpoints "${entry.slug}"`,
      isDeferrable,
      decide: (state) => seedEndpoint(state, id, entry),
    }
  })
  const naming = keyNamingOf(bootstrap)
  const overrides = (bootstrap.overrides ?? []).map((entry, i): SeedStep => {
    const id = deps.newId('ovr')
    const decide = (state: ControlReader) => seedOverride(state, naming, id, entry, deps.nowMs())
    return { what: `bootstrap.overrides[${i}]`, decide }
  })
  return [...endpoints, ...overrides]
}

const seedEndpoint = (state: ControlReader, id: string, entry: BootstrapEndpoint): EventRecord[] => {
  const { slug, aliases, ...fields } = endpointOf((name) => modelOf(state, name), entry)
  const tenant_id = tenantOf(state, entry.tenant)
  const endpoints = state.table('endpoints')
  const [row] = endpoints.findRows('slug', endpointKey(tenant_id, slug))
  if (row !== undefined && row.managed_by !== 'bootstrap') return []
  const wanted = { do: 'upsert', id, slug, tenant_id, managed_by: 'bootstrap', ...fields } as const
  return decideWithAliases(aliases, row?.aliases ?? [], (words) => decideEndpoint(state, { ...wanted, aliases: words }))
}

/** The fields of an endpoint scope that an entry sets. `modelMeant`: a model that it names, as rows have it. */
export const endpointOf = (modelMeant: (name: string) => string, entry: BootstrapEndpoint) => {
  const { slug, name = slug, description = null, enabled = true, aliases = [], overrides } = entry
  return { slug, name, description, enabled, aliases, overrides: overridesOf(modelMeant, overrides) }
}

const overridesOf = (
  modelMeant: (name: string) => string,
  given: BootstrapEndpoint['overrides'],
): EndpointOverrides => {
  const merged = { ...NOTHING_OVERRIDDEN, ...given }
  const { forced_model: forced, preferred_models: preferred } = merged
  return {
    ...merged,
    forced_model: forced === null ? null : modelMeant(forced),
    preferred_models: preferred.map(modelMeant),
  }
}

/**
 * The key of an override: the last row with these three members decides. Throws Rejection for a name that no row has.
 */
const aboutOf = (state: ControlReader, naming: KeyNaming, entry: BootstrapOverride) => {
  const tenant_id = tenantOf(state, entry.tenant)
  const given = apiTargetOf(entry, (name) => keyOf(state, naming, tenant_id, name))
  const kind = overrideKindOf(entry.kind)
  return { kind, target: targetOf(state, kind, given, true), tenant_id }
}

/** The target of an entry in the API's form. `keyMeant`: the id of the key that a name means. */
export const apiTargetOf = ({ target }: BootstrapOverride, keyMeant: (name: string) => string): string | null => {
  const name = /^key:(.*)$/s.exec(target ?? '')?.[1]
  return name === undefined ? (target ?? null) : `key:${keyMeant(name)}`
}

const isSeeded = ({ actor }: OverrideRow): boolean => isSeeder(actor)

/**
 * Only the last row of the same target counts; a row that the API wrote is left alone. An expired override has been in
 * force in its time.
 */
const seedOverride = (
  state: ControlReader,
  naming: KeyNaming,
  id: string,
  entry: BootstrapOverride,
  nowMs: number,
): EventRecord[] => {
  const expires_at = entry.expires_at === undefined ? null : momentOf(entry.expires_at)
  if (expires_at !== null && Date.parse(expires_at) <= nowMs) return []
  const { kind, target, tenant_id } = aboutOf(state, naming, entry)
  const reason = entry.reason ?? null
  const { value: given } = entry
  const wanted = given?.model === undefined ? (given ?? null) : { ...given, model: modelOf(state, given.model) }
  const overrides = state.table('overrides')
  const [deciding] = overrides.find('deciding', overrideKey(kind, target, tenant_id))
  const row = deciding === undefined ? undefined : overrides.get(deciding)!
  if (row !== undefined) {
    if (!isSeeded(row)) return []
    const current = { value: row.value, reason: row.reason, expires_at: row.expires_at, enabled: row.enabled }
    const value = overrideValueOf(state, kind, wanted, true)
    if (canonicalJson(current) === canonicalJson({ value, reason, expires_at, enabled: true })) return []
  }
  return decideOverride(state, {
    do: 'write',
    id,
    kind,
    target,
    tenant_id,
    value: wanted,
    enabled: true,
    reason,
    expires_at,
    writer_tenant_id: null,
    nowMs,
  })
}

/** What the endpoint scopes of the settings name and no row has, and what the settings no longer name. */
export const steeringNotes = (bootstrap: Bootstrap, state: ControlReader, nowMs: number): string[] => {
  const { endpoints = [] } = bootstrap
  const notes = endpoints.flatMap((entry) => {
    const { overrides } = endpointOf((name) => modelOf(state, name), entry)
    return endpointWarnings(state, overrides).map((warning) => `bootstrap.endpoints "${entry.slug}": ${warning}`)
  })
  const named = new Set(endpoints.map(({ slug, tenant }) => endpointKey(tenantOf(state, tenant), slug)))
  for (const [, row] of state.table('endpoints').rows())
    if (row.managed_by === 'bootstrap' && !named.has(endpointKey(row.tenant_id, row.slug)))
      notes.push(unlistedLine(`the endpoint scope "${row.slug}"`, 'endpoints'))
  return [...notes, ...unlistedOverrides(bootstrap, state, nowMs)]
}

/** Only those that are in force. */
const unlistedOverrides = (bootstrap: Bootstrap, state: ControlReader, nowMs: number): string[] => {
  const { overrides = [] } = bootstrap
  const naming = keyNamingOf(bootstrap)
  const named = new Set(
    overrides.map((entry) => {
      try {
        const { kind, target, tenant_id } = aboutOf(state, naming, entry)
        return overrideKey(kind, target, tenant_id)
      } catch (error) {
        if (error instanceof Rejection) return '' // reported when it was seeded
        throw error
      }
    }),
  )
  return [...state.table('overrides').rows()]
    .filter(([, row]) => isSeeded(row) && isInForce(row, nowMs))
    .filter(([, row]) => !named.has(overrideKey(row.kind, row.target, row.tenant_id)))
    .map(([, { id, kind, target }]) =>
      unlistedLine(`the override ${id} (${kind} ${target})`, 'overrides', 'it stays until it is taken back'),
    )
}
