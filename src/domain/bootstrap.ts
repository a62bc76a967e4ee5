// The `bootstrap:` section of the settings: what a first start finds in the registry. Names instead of ids, otherwise the fields of the API.
import { flawOf } from '../lib/flaw.ts'
import { type Static, t } from '../lib/schema.ts'
import { SCOPES } from './api-key.ts'
import { BudgetFields, BudgetScope, BudgetWindow } from './budget.ts'
import { CacheRuleFields, CacheRuleName } from './cache-rule.ts'
import { closed, Nullable } from './fields.ts'
import { CAPABILITIES, ModelFields, ModelName } from './model.ts'
import { PolicyFields, PolicyName } from './policy.ts'
import { ProviderFields, ProviderName } from './provider.ts'
import { RateLimits, TenantFields, TenantSlug } from './tenant.ts'
import { ToolFields, ToolKind, ToolName } from './tool.ts'
import { ToolPolicyFields, ToolPolicyName } from './tool-policy.ts'

const Enabled = t.Optional(t.Boolean())
const EnvName = t.String({ minLength: 1, maxLength: 128, pattern: '^[A-Za-z_][A-Za-z0-9_]*$' })
const { capability_source: _, capabilities: __, ...modelFields } = ModelFields.properties

const ModelEntry = {
  name: ModelName,
  ...t.Partial(t.Object(modelFields)).properties,
  capabilities: t.Optional(
    t.Array(t.Union(CAPABILITIES.map((name) => t.Literal(name))), { maxItems: CAPABILITIES.length }),
  ),
  enabled: Enabled,
}

const Tenant = t.Optional(TenantSlug)
/** `tenant` is a slug; absent: global, of budgets the tenant `default`. */
const LIMITS = {
  /** `scope.id`: of a key its name or id, of others as in the API. */
  budgets: t.Optional(
    t.Array(
      t.Composite([
        t.Object({ tenant: Tenant, scope: t.Optional(BudgetScope), window: t.Optional(BudgetWindow) }),
        t.Partial(BudgetFields),
      ]),
      { maxItems: 1_000 },
    ),
  ),
  /** `scopes` name tenants by slug and keys by name. */
  cache_rules: t.Optional(
    t.Array(
      t.Composite([
        t.Object({ name: CacheRuleName, tenant: Tenant, ttl_seconds: CacheRuleFields.properties.ttl_seconds }),
        t.Partial(t.Omit(CacheRuleFields, ['ttl_seconds'])),
      ]),
      { maxItems: 1_000 },
    ),
  ),
  tools: t.Optional(
    t.Array(
      t.Composite([
        t.Object({ name: ToolName, tenant: Tenant, kind: t.Optional(ToolKind), enabled: Enabled }),
        t.Partial(ToolFields),
      ]),
      { maxItems: 1_000 },
    ),
  ),
  tool_policies: t.Optional(
    t.Array(
      t.Composite([t.Object({ name: ToolPolicyName, tenant: Tenant, enabled: Enabled }), t.Partial(ToolPolicyFields)]),
      { maxItems: 1_000 },
    ),
  ),
}

export const Bootstrap = closed(
  t.Object({
    tenants: t.Optional(t.Array(t.Composite([t.Object({ slug: TenantSlug }), TenantFields]), { maxItems: 1_000 })),
    keys: t.Optional(
      t.Array(
        t.Object({
          name: t.String({ minLength: 1, maxLength: 256 }),
          /** Slug; `default` when absent. */
          tenant: t.Optional(TenantSlug),
          scopes: t.Array(t.Union(SCOPES.map((scope) => t.Literal(scope))), { minItems: 1, maxItems: SCOPES.length }),
          /** Name of the variable that holds the key; absent: one is minted and printed once. */
          key_env: t.Optional(EnvName),
          expires_in_hours: t.Optional(t.Integer({ minimum: 1, maximum: 876_000 })),
          /** Name of a policy. */
          routing_policy: t.Optional(PolicyName),
          rate_limits: t.Optional(Nullable(RateLimits)),
        }),
        { maxItems: 1_000 },
      ),
    ),
    providers: t.Optional(
      t.Array(
        t.Object({
          name: ProviderName,
          ...t.Partial(ProviderFields).properties,
          kind: ProviderFields.properties.kind,
          enabled: Enabled,
          models: t.Optional(t.Array(t.Object(ModelEntry), { maxItems: 1_000 })),
        }),
        { maxItems: 1_000 },
      ),
    ),
    /** `provider` is a name. */
    models: t.Optional(t.Array(t.Object({ provider: ProviderName, ...ModelEntry }), { maxItems: 10_000 })),
    policies: t.Optional(
      t.Array(
        t.Composite([
          /** Slug; absent: global. */
          t.Object({ name: PolicyName, tenant: t.Optional(TenantSlug) }),
          t.Partial(PolicyFields),
        ]),
        { maxItems: 1_000 },
      ),
    ),
    ...LIMITS,
  }),
)
export type Bootstrap = Static<typeof Bootstrap>
export type BootstrapKey = NonNullable<Bootstrap['keys']>[number]
export type BootstrapModel = NonNullable<Bootstrap['models']>[number]

/** The section, typed, or the first flaw as one line that names the key (`bootstrap.providers[0].kind: ...`). */
export const checkBootstrap = (value: unknown): { ok: true; value: Bootstrap } | { ok: false; error: string } => {
  const flaw = flawOf(Bootstrap, value)
  if (flaw === null) return { ok: true, value: value as Bootstrap }
  const indexed = (path: string) => path.replaceAll(/\.(\d+)(?=\.|$)/g, '[$1]')
  const key = flaw.param === '' ? 'bootstrap' : `bootstrap.${indexed(flaw.param)}`
  const message = flaw.message.replaceAll(`"${flaw.param}"`, `"${indexed(flaw.param)}"`)
  return { ok: false, error: `${key}: ${message}` }
}
