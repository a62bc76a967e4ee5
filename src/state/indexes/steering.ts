// Steering of requests by operators, for the hot path: endpoint scopes, and the overrides in force.

/**
 * An endpoint scope: what an application selects with `X-Gateway-Endpoint`, or with one of its aliases as the model.
 */
export interface EndpointScope {
  readonly id: string
  readonly slug: string
  /** Null: every tenant may use it. */
  readonly tenantId: string | null
  readonly enabled: boolean
  readonly forcedModel: string | null
  readonly preferredModels: readonly string[]
  readonly preferredProviders: readonly string[]
  /** Canonical name, null: not overridden. */
  readonly strategy: string | null
  readonly maxCostUsd: number | null
  readonly latencyTargetMs: number | null
  readonly noFallback: boolean
  readonly revision: string
}

export type Disabled = 'cache' | 'fallback' | 'tools' | 'gateway_execution'

/**
 * The overrides that hold for one tenant at one moment, by their effect, and the caps of its budgets. Names of models
 * and slugs are lower-cased.
 */
export interface OverridesInForce {
  /** Ids of all of them, in the order of the log. */
  readonly ids: readonly string[]
  readonly killedProviderIds: ReadonlySet<string>
  readonly blockedModels: ReadonlySet<string>
  readonly blockedKeyIds: ReadonlySet<string>
  readonly blockedEndpoints: ReadonlySet<string>
  readonly blockedTools: ReadonlySet<string>
  /**
   * USD for each request: the lowest of those that concern everything, and those of single subjects (`provider:<id>`,
   * `model:<name>`, `key:<id>`, `endpoint:<slug>`).
   */
  readonly maxCostUsd: number | null
  readonly maxCostUsdOf: ReadonlyMap<string, number>
  /** Requested model, `key:<id>`, `endpoint:<slug>` or `*` -> the model that is used instead. */
  readonly forcedModels: ReadonlyMap<string, string>
  /** The same, written by keys of tenants without `*`: it holds where no override with `*` forces another model. */
  readonly forcedByTenants: ReadonlyMap<string, string>
  readonly disabled: ReadonlySet<Disabled>
  /** Of single subjects (`model:<name>`, `key:<id>`, `endpoint:<slug>`). */
  readonly disabledOf: ReadonlyMap<string, ReadonlySet<Disabled>>
  /** No overrides, but in force like them: they may change between two attempts too. Null: no budget has one. */
  readonly hardCaps: HardCaps | null
}

/** The most that a single request may cost by the budgets (`hard_cap_usd`) of one tenant that are in use. Nano-USD. */
export interface HardCaps {
  /** Ids of the budgets, in the order of the log. */
  readonly budgetIds: readonly string[]
  /** The lowest of those that concern the whole tenant. */
  readonly all: number | null
  /**
   * The lowest of each single subject: `provider:<id>`, `model:<name>`, `key:<id>`, `endpoint:<slug>`; names and slugs
   * lower-cased.
   */
  readonly of: ReadonlyMap<string, number>
}

export const NO_OVERRIDES: OverridesInForce = {
  ids: [],
  killedProviderIds: new Set(),
  blockedModels: new Set(),
  blockedKeyIds: new Set(),
  blockedEndpoints: new Set(),
  blockedTools: new Set(),
  maxCostUsd: null,
  maxCostUsdOf: new Map(),
  forcedModels: new Map(),
  forcedByTenants: new Map(),
  disabled: new Set(),
  disabledOf: new Map(),
  hardCaps: null,
}

export interface Steering {
  /**
   * The tenant's own scope of that slug before the global one; disabled ones too (403). Null: unknown (404).
   * Case-insensitive.
   */
  endpoint(tenantId: string, slug: string): EndpointScope | null
  /** The scope that has this name as an alias, found as by its slug: tried after model names and model aliases. */
  endpointOfAlias(tenantId: string, name: string): EndpointScope | null
  /**
   * Every alias that the tenant may send as a model, in its written form, with its scope: its own before global ones of
   * that name.
   */
  aliases(tenantId: string): ReadonlyMap<string, EndpointScope>
  /** One object until something changes or expires: cheap to call for each request, and comparable. */
  overrides(tenantId: string, nowMs: number): OverridesInForce
}

/** Without scopes and overrides. */
export const UNSTEERED: Steering = {
  endpoint: () => null,
  endpointOfAlias: () => null,
  aliases: () => new Map(),
  overrides: () => NO_OVERRIDES,
}
