// Endpoint scopes and overrides as requests read them: follows the fold, and returns the same objects until something
// changes or expires.
import type { BudgetRow } from '../../domain/budgets/budget.ts'
import type { RowChange } from '../../domain/kernel/tables.ts'
import type { EndpointRow } from '../../domain/steering/endpoint.ts'
import type { OverrideRow } from '../../domain/steering/override-row.ts'
import type { FoldedBatch, LiveState } from '../port.ts'
import { CappedBudgets } from './hard-caps.ts'
import type { Disabled, EndpointScope, HardCaps, OverridesInForce, Steering } from './steering.ts'

/** The owner key of rows without a tenant. */
const GLOBAL = ''

/** Opens it on the folded state, and keeps it up to date for the life of the live state. */
export const createSteering = (live: Pick<LiveState, 'control' | 'subscribe' | 'refused'>): Steering =>
  new LiveSteering(live)

/** The merged overrides of one tenant: valid from `fromMs` up to `untilMs`, since none expires between. */
interface MergedOverrides {
  readonly value: OverridesInForce
  readonly fromMs: number
  readonly untilMs: number
}

/** The rows that decide and are enabled, in the order of their arrival. */
interface Standing {
  readonly row: OverrideRow
  readonly order: number
  readonly expiresAtMs: number
}

/** An alias in its written form. */
interface Aliased {
  readonly alias: string
  readonly scope: EndpointScope
}

class LiveSteering implements Steering {
  /** Owner -> slug -> scope, and owner -> alias -> scope (lower case). */
  readonly #bySlug = new Map<string, Map<string, EndpointScope>>()
  readonly #byAlias = new Map<string, Map<string, Aliased>>()
  /** Owner -> id -> row. */
  readonly #standing = new Map<string, Map<string, Standing>>()
  readonly #caps = new CappedBudgets()
  readonly #merges = new Map<string, MergedOverrides>()
  #order = 0

  constructor(readonly live: Pick<LiveState, 'control' | 'subscribe' | 'refused'>) {
    for (const [, row] of live.control.table('endpoints').rows()) this.#putScope(row)
    for (const [id, row] of live.control.table('overrides').rows()) this.#putOverride(id, row)
    for (const [, row] of live.control.table('budgets').rows()) this.#caps.put(row)
    live.subscribe((batch) => this.#follow(batch))
  }

  endpoint(tenantId: string, slug: string): EndpointScope | null {
    const word = slug.toLowerCase()
    return this.#bySlug.get(tenantId)?.get(word) ?? this.#bySlug.get(GLOBAL)?.get(word) ?? null
  }

  endpointOfAlias(tenantId: string, name: string): EndpointScope | null {
    if (this.#byAlias.size === 0) return null
    const word = name.toLowerCase()
    return (this.#byAlias.get(tenantId)?.get(word) ?? this.#byAlias.get(GLOBAL)?.get(word))?.scope ?? null
  }

  aliases(tenantId: string): ReadonlyMap<string, EndpointScope> {
    const own = this.#byAlias.get(tenantId)
    const found = new Map<string, EndpointScope>()
    for (const { alias, scope } of own?.values() ?? []) found.set(alias, scope)
    for (const [word, { alias, scope }] of this.#byAlias.get(GLOBAL) ?? [])
      if (own?.has(word) !== true) found.set(alias, scope)
    return found
  }

  overrides(tenantId: string, nowMs: number): OverridesInForce {
    const owner = this.#standing.has(tenantId) || this.#caps.has(tenantId) ? tenantId : GLOBAL
    const held = this.#merges.get(owner)
    if (held !== undefined && nowMs >= held.fromMs && nowMs < held.untilMs) return held.value
    const fresh = this.#hold(owner, nowMs)
    this.#merges.set(owner, fresh)
    return fresh.value
  }

  #follow({ changes, refused }: FoldedBatch): void {
    for (const change of changes) {
      if (change.table === 'endpoints') this.#scopeChanged(change as RowChange<EndpointRow>)
      if (change.table === 'budgets') this.#budgetChanged(change as RowChange<BudgetRow>)
      if (change.table === 'overrides') this.#overrideChanged(change as RowChange<OverrideRow>)
      // `*` includes all of them.
      if (change.table === 'providers' && (change.before === null || change.after === null)) this.#merges.clear()
    }
    const endpoints = this.live.control.table('endpoints')
    for (const id of refused) {
      const row = endpoints.get(id)
      if (row !== undefined) this.#scopeChanged({ table: 'endpoints', id, before: row, after: row })
    }
  }

  #scopeChanged({ before, after }: RowChange<EndpointRow>): void {
    if (before !== null) {
      const owner = before.tenant_id ?? GLOBAL
      withdraw(this.#bySlug, owner, before.slug)
      for (const alias of before.aliases) withdraw(this.#byAlias, owner, alias.toLowerCase())
    }
    if (after !== null) this.#putScope(after)
  }

  #putScope(row: EndpointRow): void {
    const owner = row.tenant_id ?? GLOBAL
    const scope = scopeOf(row, this.live.refused.has(row.id))
    insert(this.#bySlug, owner, row.slug, scope)
    for (const alias of row.aliases) insert(this.#byAlias, owner, alias.toLowerCase(), { alias, scope })
  }

  #overrideChanged({ id, before, after }: RowChange<OverrideRow>): void {
    if (before !== null) withdraw(this.#standing, before.tenant_id ?? GLOBAL, id)
    if (after !== null) this.#putOverride(id, after)
    this.#merges.clear()
  }

  #budgetChanged({ before, after }: RowChange<BudgetRow>): void {
    if (before !== null) this.#caps.drop(before)
    if (after !== null) this.#caps.put(after)
    this.#merges.clear()
  }

  #putOverride(id: string, row: OverrideRow): void {
    if (row.superseded || !row.enabled) return
    const expiresAtMs = row.expires_at === null ? Number.POSITIVE_INFINITY : Date.parse(row.expires_at)
    insert(this.#standing, row.tenant_id ?? GLOBAL, id, { row, order: this.#order++, expiresAtMs })
  }

  #hold(owner: string, nowMs: number): MergedOverrides {
    const shared = this.#standing.get(GLOBAL)?.values() ?? []
    const own = owner === GLOBAL ? [] : (this.#standing.get(owner)?.values() ?? [])
    let fromMs = Number.NEGATIVE_INFINITY
    let untilMs = Number.POSITIVE_INFINITY
    const inForce: Standing[] = []
    for (const standing of [...shared, ...own]) {
      if (standing.expiresAtMs <= nowMs) fromMs = Math.max(fromMs, standing.expiresAtMs)
      else {
        untilMs = Math.min(untilMs, standing.expiresAtMs)
        inForce.push(standing)
      }
    }
    return { value: this.#merged(inForce, this.#caps.of(owner)), fromMs, untilMs }
  }

  /** Rows for all tenants come first, so that a tenant's own forced model takes precedence over the one for all. */
  #merged(inForce: readonly Standing[], hardCaps: HardCaps | null): OverridesInForce {
    const merged = new Merged()
    for (const { row } of inForce) merged.add(row)
    if (merged.killsAll)
      for (const [id] of this.live.control.table('providers').rows()) merged.killedProviderIds.add(id)
    const ids = inForce.toSorted((a, b) => a.order - b.order).map(({ row }) => row.id)
    const { killsAll: _, ...value } = merged
    return Object.freeze({ ...value, ids, hardCaps }) // `ids` is not frozen: each request reads it five times
  }
}

/** The union of the overrides in force: refusals add up, the lowest cap holds. */
class Merged implements Omit<OverridesInForce, 'ids' | 'hardCaps'> {
  readonly killedProviderIds = new Set<string>()
  readonly blockedModels = new Set<string>()
  readonly blockedKeyIds = new Set<string>()
  readonly blockedEndpoints = new Set<string>()
  readonly blockedTools = new Set<string>()
  maxCostUsd: number | null = null
  readonly maxCostUsdOf = new Map<string, number>()
  readonly forcedModels = new Map<string, string>()
  readonly forcedByTenants = new Map<string, string>()
  readonly disabled = new Set<Disabled>()
  readonly disabledOf = new Map<string, Set<Disabled>>()
  killsAll = false

  add({ kind, target, value, writer_tenant_id: writer }: OverrideRow): void {
    const name = target.slice(target.indexOf(':') + 1)
    if (kind === 'kill') {
      if (target === '*') this.killsAll = true
      else this.killedProviderIds.add(name)
    } else if (kind === 'block') this.#block(target, name)
    else if (kind === 'cap' && value?.max_cost_usd !== undefined) this.#cap(target, value.max_cost_usd)
    else if (kind === 'force' && value?.model !== undefined)
      (writer === null ? this.forcedModels : this.forcedByTenants).set(
        target.startsWith('model:') ? name : target,
        value.model,
      )
    else if (kind === 'disable') this.#disable(target, (value?.features ?? []) as readonly Disabled[])
  }

  #block(target: string, name: string): void {
    if (target.startsWith('model:')) this.blockedModels.add(name)
    else if (target.startsWith('key:')) this.blockedKeyIds.add(name)
    else if (target.startsWith('endpoint:')) this.blockedEndpoints.add(name)
    else if (target.startsWith('tool:')) this.blockedTools.add(name)
  }

  #cap(target: string, maxCostUsd: number): void {
    if (target === '*') this.maxCostUsd = Math.min(this.maxCostUsd ?? maxCostUsd, maxCostUsd)
    else this.maxCostUsdOf.set(target, Math.min(this.maxCostUsdOf.get(target) ?? maxCostUsd, maxCostUsd))
  }

  #disable(target: string, features: readonly Disabled[]): void {
    let set = this.disabled
    if (target !== '*') {
      set = this.disabledOf.get(target) ?? new Set()
      this.disabledOf.set(target, set)
    }
    for (const feature of features) set.add(feature)
  }
}

/**
 * A scope with a later event that this build does not support is refused as a disabled one is: its present target is
 * unknown.
 */
const scopeOf = (row: EndpointRow, refused: boolean): EndpointScope => {
  const { overrides } = row
  return Object.freeze({
    id: row.id,
    slug: row.slug,
    tenantId: row.tenant_id,
    enabled: row.enabled && !refused,
    forcedModel: overrides.forced_model,
    preferredModels: overrides.preferred_models,
    preferredProviders: overrides.preferred_providers,
    strategy: overrides.strategy,
    maxCostUsd: overrides.max_cost_usd,
    latencyTargetMs: overrides.latency_target_ms,
    noFallback: overrides.no_fallback,
    revision: row.revision,
  })
}

const insert = <Value>(index: Map<string, Map<string, Value>>, owner: string, key: string, value: Value): void => {
  const own = index.get(owner)
  if (own === undefined) index.set(owner, new Map([[key, value]]))
  else own.set(key, value)
}

const withdraw = <Value>(index: Map<string, Map<string, Value>>, owner: string, key: string): void => {
  const own = index.get(owner)
  own?.delete(key)
  if (own?.size === 0) index.delete(owner)
}
