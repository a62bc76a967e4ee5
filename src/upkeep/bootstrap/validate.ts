// What the decisions about entries of `bootstrap:` refuse in every state, reported before anything starts: an entry
// left out with a note could be a limit that an operator relies on. The rules and messages are those of the decisions;
// what depends on the state is a note of the start.
import type { Bootstrap, BootstrapEndpoint, BootstrapModel, BootstrapOverride } from '../../domain/bootstrap.ts'
import { BUDGET_DEFAULTS, requireSoundBudget } from '../../domain/budgets/budget.ts'
import { requireTargetId } from '../../domain/budgets/budget-scope.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import { orderedTiers } from '../../domain/registry/model.ts'
import { requireSoundProvider } from '../../domain/registry/provider.ts'
import { requireSoundTool } from '../../domain/registry/tool.ts'
import { soundRule } from '../../domain/steering/cache-rule.ts'
import { soundEndpoint } from '../../domain/steering/endpoint.ts'
import { requirePossibleTarget, soundValueOf } from '../../domain/steering/override-target.ts'
import { soundPolicy } from '../../domain/steering/policy.ts'
import type { KindTable } from '../models/kind-table.ts'
import { type Entry, ruleOf, toolOf } from './limits.ts'
import { momentOf } from './names.ts'
import { policyOf } from './policies.ts'
import { requireSoundCorrection } from './prices.ts'
import { providerFieldsOf } from './providers.ts'
import { apiTargetOf, endpointOf } from './steering.ts'

/** Stands for the id that a row will have: as long, since rows may be too large. */
const ANY_ID = `some_${'0'.repeat(35)}`
const OWNED = { id: ANY_ID, managed_by: 'bootstrap' } as const
const ownerOf = (tenant: string | undefined): string | null => (tenant === undefined ? null : ANY_ID)

/**
 * The first entry with a value that no state accepts, as one line that begins with the path of the field; null when
 * there is none.
 */
export const valueProblem = (bootstrap: Bootstrap, kinds: KindTable): string | null => {
  const { keys, providers = [], models, policies, endpoints, overrides, budgets, cache_rules, tools } = bootstrap
  const ofProviders = problemAmong('providers', providers, (entry) =>
    requireSoundProvider(providerFieldsOf(entry, kinds)),
  )
  const ofNested = () =>
    providers.reduce<string | null>(
      (problem, { models: own }, i) => problem ?? problemAmong(`providers[${i}].models`, own, requireTiers),
      null,
    )
  return (
    problemAmong('keys', keys, requireMoment) ??
    ofProviders ??
    ofNested() ??
    problemAmong('models', models, requireTiers) ??
    problemAmong('policies', policies, requirePolicy) ??
    problemAmong('endpoints', endpoints, requireEndpoint) ??
    problemAmong('overrides', overrides, requireOverride) ??
    problemAmong('budgets', budgets, requireBudget) ??
    problemAmong('cache_rules', cache_rules, requireRule) ??
    problemAmong('tools', tools, (entry) =>
      requireSoundTool({ ...OWNED, tenant_id: ownerOf(entry.tenant), ...toolOf(entry) }),
    ) ??
    problemAmong('price_corrections', bootstrap.price_corrections, requireSoundCorrection)
  )
}

/** `requireSound` throws Rejection. */
const problemAmong = <One>(
  section: string,
  entries: readonly One[] = [],
  requireSound: (entry: One) => void,
): string | null => {
  for (const [i, entry] of entries.entries()) {
    try {
      requireSound(entry)
    } catch (error) {
      if (!(error instanceof Rejection)) throw error
      return `bootstrap.${section}[${i}]${error.param === null ? '' : `.${error.param}`}: ${error.message}`
    }
  }
  return null
}

const requireMoment = ({ expires_at }: { readonly expires_at?: string }): void => {
  if (expires_at !== undefined) momentOf(expires_at)
}

const requireTiers = ({ price_tiers }: Pick<BootstrapModel, 'price_tiers'>): void => {
  orderedTiers(price_tiers)
}

/** A long name of one row becomes its id once there is such a row. */
const shortest = (name: string): string =>
  name.startsWith('provider:') && Buffer.byteLength(name) > ANY_ID.length ? ANY_ID : name

const requirePolicy = ({ name, tenant, ...fields }: Entry<'policies'>): void => {
  soundPolicy({ ...OWNED, tenant_id: ownerOf(tenant), name, ...policyOf(shortest, fields) })
}

const requireEndpoint = (entry: BootstrapEndpoint): void => {
  soundEndpoint({ ...OWNED, tenant_id: ownerOf(entry.tenant), ...endpointOf(shortest, entry) })
}

/** Only the state has the keys, so every name counts as one here. */
const keyMeant = (name: string): string => (name === '' ? '' : ANY_ID)

const requireOverride = (entry: BootstrapOverride): void => {
  requireMoment(entry)
  requirePossibleTarget(entry.kind, apiTargetOf(entry, keyMeant))
  soundValueOf(entry.kind, entry.value ?? null)
}

const requireBudget = ({ tenant: _, scope, window = BUDGET_DEFAULTS.window, ...rest }: Entry<'budgets'>): void => {
  if (scope !== undefined && scope.type !== 'tenant') requireTargetId(scope)
  requireSoundBudget(window, rest)
}

const requireRule = (entry: Entry<'cache_rules'>): void => {
  soundRule(ruleOf(entry, { key: keyMeant, tenant: (slug) => slug }), entry.tenant === undefined)
}
