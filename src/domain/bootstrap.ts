// The `bootstrap:` section of the settings: what a first start puts into the registry. It has names instead of ids,
// otherwise the fields of the API. Where a policy, an endpoint scope or an override names a model,
// `provider:<provider>/<model>` is that row alone; a bare name is the rows of all providers that serve it.
import { firstError } from '../lib/schema/first-error.ts'
import { type Static, t } from '../lib/schema/schema.ts'
import { SCOPES } from './access/api-key.ts'
import { RateLimits, TenantFields, TenantSlug } from './access/tenant.ts'
import { BudgetFields, BudgetScope, BudgetWindow } from './budgets/budget.ts'
import { closed, Id, Nullable } from './kernel/fields.ts'
import { unsoundName } from './kernel/names.ts'
import { CAPABILITIES, ModelFields, ModelName } from './registry/model.ts'
import { CorrectionPrices, CorrectionReason, MAX_CORRECTIONS } from './registry/price-correction.ts'
import { ProviderFields, ProviderName } from './registry/provider.ts'
import { ToolFields, ToolKind, ToolName, ToolOwner } from './registry/tool.ts'
import { ToolPolicyFields, ToolPolicyName } from './registry/tool-policy.ts'
import { CacheRuleFields, CacheRuleName } from './steering/cache-rule.ts'
import { EndpointFields, EndpointOverrides, EndpointSlug } from './steering/endpoint.ts'
import { OverrideReason } from './steering/override.ts'
import { OVERRIDE_KINDS } from './steering/override-target.ts'
import { PolicyFields, PolicyName } from './steering/policy.ts'

const Enabled = t.Optional(t.Boolean())
const EnvName = t.String({ minLength: 1, maxLength: 128, pattern: '^[A-Za-z_][A-Za-z0-9_]*$' })
const Moment = t.String({
  maxLength: 32,
  pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(?:\\.\\d{1,9})?(?:Z|[+-]\\d\\d:\\d\\d)$',
  description: 'an RFC 3339 time such as 2026-01-31T12:00:00Z',
})
/** Entries of one section: a whole installation fits, as `gateway export` writes it. */
const MOST = { maxItems: 100_000 }
const { capabilities: _, ...modelFields } = ModelFields.properties

const ModelEntry = {
  name: ModelName,
  ...t.Partial(t.Object(modelFields)).properties,
  capabilities: t.Optional(
    t.Array(t.Union(CAPABILITIES.map((name) => t.Literal(name))), { maxItems: CAPABILITIES.length }),
  ),
  enabled: Enabled,
}

const Tenant = t.Optional(TenantSlug)
const { name: EndpointName, overrides: __, ...endpointFields } = EndpointFields.properties
/** Steering of requests beside policies. `tenant` is a slug; absent: for every tenant. */
const STEERING = {
  endpoints: t.Optional(
    t.Array(
      t.Object({
        slug: EndpointSlug,
        tenant: Tenant,
        /** The slug when absent. */
        name: t.Optional(EndpointName),
        ...t.Partial(t.Object(endpointFields)).properties,
        overrides: t.Optional(t.Partial(EndpointOverrides)),
      }),
      MOST,
    ),
  ),
  /**
   * `target` as in the API, with names instead of ids: `provider:<name>`, `key:<name>`, for a key of another tenant
   * `key:<slug>/<name>`.
   */
  overrides: t.Optional(
    t.Array(
      t.Object({
        kind: t.Union(OVERRIDE_KINDS.map((kind) => t.Literal(kind))),
        target: t.Optional(t.String({ minLength: 1, maxLength: 384 })),
        tenant: Tenant,
        value: t.Optional(
          t.Object({
            max_cost_usd: t.Optional(t.Number({ minimum: 0, maximum: 1_000_000 })),
            model: t.Optional(ModelName),
            features: t.Optional(t.Array(t.String({ minLength: 1, maxLength: 64 }), { maxItems: 32 })),
          }),
        ),
        reason: t.Optional(OverrideReason),
        expires_at: t.Optional(Moment),
      }),
      MOST,
    ),
  ),
}
/** `tenant` is a slug; absent: global, of budgets the tenant `default`. */
const LIMITS = {
  /** `scope.id`: of a key its name or id, of others as in the API. */
  budgets: t.Optional(
    t.Array(
      t.Composite([
        t.Object({ tenant: Tenant, scope: t.Optional(BudgetScope), window: t.Optional(BudgetWindow) }),
        t.Partial(BudgetFields),
      ]),
      MOST,
    ),
  ),
  /** `scopes` name tenants by slug and keys by name. */
  cache_rules: t.Optional(
    t.Array(
      t.Composite([
        t.Object({ name: CacheRuleName, tenant: Tenant, ttl_seconds: CacheRuleFields.properties.ttl_seconds }),
        t.Partial(t.Omit(CacheRuleFields, ['ttl_seconds'])),
      ]),
      MOST,
    ),
  ),
  tools: t.Optional(
    t.Array(
      t.Composite([
        t.Object({ name: ToolName, tenant: Tenant, kind: t.Optional(ToolKind), enabled: Enabled }),
        t.Partial(ToolFields),
      ]),
      MOST,
    ),
  ),
  tool_policies: t.Optional(
    t.Array(
      t.Composite([t.Object({ name: ToolPolicyName, tenant: Tenant, enabled: Enabled }), t.Partial(ToolPolicyFields)]),
      MOST,
    ),
  ),
}

const CorrectionMoment = t.String({
  maxLength: 32,
  pattern: '^\\d{4}-\\d\\d-\\d\\d(?:T\\d\\d:\\d\\d:\\d\\d(?:\\.\\d{1,9})?(?:Z|[+-]\\d\\d:\\d\\d))?$',
  description: 'an RFC 3339 time such as 2026-01-31T12:00:00Z or a date (UTC), a whole minute',
})
/** In the order in which they apply: where two overlap, the later one holds. Names of provider and model. */
const CORRECTIONS = {
  price_corrections: t.Optional(
    t.Array(
      t.Object({
        provider: ProviderName,
        model: ModelName,
        from: CorrectionMoment,
        /** Exclusive. */
        to: CorrectionMoment,
        ...CorrectionPrices.properties,
        cached_input_cost_per_million: t.Optional(CorrectionPrices.properties.cached_input_cost_per_million),
        reason: t.Optional(Nullable(CorrectionReason)),
      }),
      { maxItems: MAX_CORRECTIONS },
    ),
  ),
}

const RecreatedName = t.String({
  maxLength: 1_024,
  pattern:
    '^(?:tenants|providers|models|policies|endpoints|budgets|cache_rules|tools|tool_policies|price_corrections)/.',
  description: 'a section and a name such as providers/openai, as the start reports it',
})

export const Bootstrap = closed(
  t.Object({
    tenants: t.Optional(t.Array(t.Composite([t.Object({ slug: TenantSlug }), TenantFields]), MOST)),
    keys: t.Optional(
      t.Array(
        t.Object({
          name: t.String({ minLength: 1, maxLength: 256 }),
          /**
           * Set by an export where the name is ambiguous: the key with this id if it exists, otherwise one of this
           * name.
           */
          id: t.Optional(Id),
          /** Slug; `default` when absent. */
          tenant: t.Optional(TenantSlug),
          scopes: t.Array(t.Union(SCOPES.map((scope) => t.Literal(scope))), { minItems: 1, maxItems: SCOPES.length }),
          /** Name of the variable that holds the key; absent: one is minted and printed once. */
          key_env: t.Optional(EnvName),
          expires_in_hours: t.Optional(t.Integer({ minimum: 1, maximum: 876_000 })),
          /** Alternative to `expires_in_hours`, which counts from when the key is created. */
          expires_at: t.Optional(Moment),
          /** Name of a policy: the tenant's own before the global one, unless the owner is given. */
          routing_policy: t.Optional(PolicyName),
          routing_policy_owner: t.Optional(ToolOwner),
          rate_limits: t.Optional(Nullable(RateLimits)),
        }),
        MOST,
      ),
    ),
    providers: t.Optional(
      t.Array(
        t.Object({
          name: ProviderName,
          ...t.Partial(ProviderFields).properties,
          kind: ProviderFields.properties.kind,
          enabled: Enabled,
          models: t.Optional(t.Array(t.Object(ModelEntry), MOST)),
        }),
        MOST,
      ),
    ),
    /** `provider` is a name. */
    models: t.Optional(t.Array(t.Object({ provider: ProviderName, ...ModelEntry }), MOST)),
    policies: t.Optional(
      t.Array(
        t.Composite([
          /** Slug; absent: global. */
          t.Object({ name: PolicyName, tenant: t.Optional(TenantSlug) }),
          t.Partial(PolicyFields),
        ]),
        MOST,
      ),
    ),
    ...STEERING,
    ...LIMITS,
    ...CORRECTIONS,
    /** What was deleted through the API and is to be made anew, once: `providers/openai`, `policies/acme/default`. */
    recreate: t.Optional(t.Array(RecreatedName, MOST)),
  }),
)
export type Bootstrap = Static<typeof Bootstrap>
export type BootstrapKey = NonNullable<Bootstrap['keys']>[number]
export type BootstrapEndpoint = NonNullable<Bootstrap['endpoints']>[number]
export type BootstrapOverride = NonNullable<Bootstrap['overrides']>[number]
export type BootstrapCorrection = NonNullable<Bootstrap['price_corrections']>[number]
export type BootstrapModel = NonNullable<Bootstrap['models']>[number]

/**
 * The section, typed, or the first validation error as one line that names the key (`bootstrap.providers[0].kind:
 * ...`).
 */
export const checkBootstrap = (value: unknown): { ok: true; value: Bootstrap } | { ok: false; error: string } => {
  const problem = firstError(Bootstrap, value)
  if (problem !== null) {
    const message = problem.message.replaceAll(`"${problem.param}"`, `"${indexed(problem.param)}"`)
    return { ok: false, error: `${keyOf(problem.param)}: ${message}` }
  }
  const unsound = unsoundName(value)
  if (unsound !== null) return { ok: false, error: `${keyOf(unsound.path.join('.'))}: it ${unsound.rule}` }
  return { ok: true, value: value as Bootstrap }
}

const indexed = (path: string): string => path.replaceAll(/\.(\d+)(?=\.|$)/g, '[$1]')

const keyOf = (path: string): string => (path === '' ? 'bootstrap' : `bootstrap.${indexed(path)}`)
