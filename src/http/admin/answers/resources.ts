// Response schemas of the main resources. Open: a later version may add fields. The document names each by its title.
import { ApiKeyIssued } from '../../../domain/access/api-key.ts'
import { RateLimits, TenantSlug } from '../../../domain/access/tenant.ts'
import { BudgetFields } from '../../../domain/budgets/budget.ts'
import { Id, ManagedBy, Nullable, Status, Timestamp } from '../../../domain/kernel/fields.ts'
import { ModelFields, ModelName } from '../../../domain/registry/model.ts'
import { PriceCorrected } from '../../../domain/registry/price-correction.ts'
import { ProviderFields, ProviderName } from '../../../domain/registry/provider.ts'
import { CheckResult, ProviderTested } from '../../../domain/registry/provider-test.ts'
import { SecretBinding } from '../../../domain/registry/secret-binding.ts'
import { ToolFields, ToolKind, ToolName } from '../../../domain/registry/tool.ts'
import { ToolPolicyFields, ToolPolicyName } from '../../../domain/registry/tool-policy.ts'
import { CacheRuleFields, CacheRuleName } from '../../../domain/steering/cache-rule.ts'
import { EndpointFields, EndpointSlug } from '../../../domain/steering/endpoint.ts'
import { OverrideWritten } from '../../../domain/steering/override.ts'
import { PolicyFields, PolicyName } from '../../../domain/steering/policy.ts'
import { type TSchema, t } from '../../../lib/schema/schema.ts'
import { ShownHealth } from './health.ts'

const STAMPS = {
  created_at: Timestamp,
  updated_at: Timestamp,
  /** Id of the decision that last changed the resource: what `If-Match` compares. */
  revision: t.String({ description: 'id of the decision that last changed it' }),
}
const OWNER = Nullable(Id)
const Warnings = t.Optional(t.Array(t.String(), { description: 'names that nobody has, and what was probably meant' }))

/** A resource by its name in the document. */
const shown = (title: string, properties: Readonly<Record<string, TSchema>>): TSchema =>
  t.Object({ ...properties, ...STAMPS }, { title })

export const TenantView = shown('Tenant', {
  id: Id,
  slug: TenantSlug,
  name: t.String(),
  plan: Nullable(t.String()),
  rate_limits: Nullable(RateLimits),
  managed_by: ManagedBy,
  content_erasures: t.Optional(t.Integer({ minimum: 1, description: 'how often its captured content was erased' })),
})

const { digest: _, seeded_digest: __, seeded_name: ___, ...shownOfKey } = ApiKeyIssued.properties
const KEY = {
  ...shownOfKey,
  status: t.Union([t.Literal('active'), t.Literal('expired'), t.Literal('revoked')]),
  revoked_at: Nullable(Timestamp),
  last_used_at: Nullable(t.String({ description: 'on this instance, since it started' })),
}
export const KeyView = shown('Key', KEY)
/** The one response with a plaintext. */
export const IssuedKey = t.Object(
  {
    key: t.Object({ ...KEY, ...STAMPS }),
    plaintext: Nullable(t.String({ description: 'shown once; null in the answer to a repeat' })),
    warning: t.String(),
    id: Id,
    tenant_id: Id,
    name: t.String(),
    scopes: ApiKeyIssued.properties.scopes,
    expires_at: Nullable(Timestamp),
  },
  { title: 'IssuedKey' },
)

/** Time, name and last characters; never the secret. Absent when there is none. */
const CREDENTIAL = {
  has_credential: t.Boolean(),
  credential: t.Optional(
    t.Object({
      name: Nullable(t.String()),
      hint: Nullable(t.String()),
      bound_to: t.Object(SecretBinding.properties, { description: 'where it may be sent' }),
      created_at: Timestamp,
      updated_at: Timestamp,
    }),
  ),
}
export const CredentialView = t.Object({ provider_id: Id, ...CREDENTIAL }, { title: 'Credential' })

const { check, status, latency_ms } = CheckResult.properties
const LastTest = t.Object({
  id: Id,
  success: ProviderTested.properties.success,
  created_at: Timestamp,
  results: t.Array(t.Object({ check, status, latency_ms }), { description: 'one for each check' }),
})

export const ProviderView = shown('Provider', {
  id: Id,
  name: ProviderName,
  status: Status,
  ...ProviderFields.properties,
  ...CREDENTIAL,
  secret_withheld: Nullable(t.String(), 'which secret is out of use since it was given for another kind or address'),
  adapter_ready: Nullable(t.Boolean({ description: 'whether requests can be sent to it now; null with as_of' })),
  killed: t.Boolean(),
  health: Nullable(ShownHealth, 'as this instance sees it; null with as_of'),
  last_test: Nullable(LastTest, 'what the last test came to; null: there was none'),
  managed_by: ManagedBy,
})

export const ModelView = shown('Model', {
  id: Id,
  name: ModelName,
  provider_id: Id,
  provider: Nullable(t.String({ description: 'name of the provider' })),
  status: Status,
  ...ModelFields.properties,
  managed_by: ManagedBy,
})

export const PolicyView = shown('Policy', {
  id: Id,
  tenant_id: OWNER,
  name: PolicyName,
  ...PolicyFields.properties,
  managed_by: ManagedBy,
  warnings: Warnings,
})

export const EndpointView = shown('Endpoint', {
  id: Id,
  slug: EndpointSlug,
  tenant_id: OWNER,
  ...EndpointFields.properties,
  warnings: Warnings,
})

export const OverrideView = shown('Override', {
  ...OverrideWritten.properties,
  actor: t.Object({ type: t.String(), id: t.String() }, { description: 'who imposed it' }),
  in_force: t.Boolean(),
})

export const BudgetView = shown('Budget', {
  id: Id,
  tenant_id: Id,
  scope: t.Object({ type: t.String(), id: t.String() }),
  window: t.String(),
  ...BudgetFields.properties,
  spent_usd: Nullable(t.Number()),
  reserved_usd: Nullable(t.Number()),
  remaining_usd: Nullable(t.Number()),
  spent_tokens: Nullable(t.Integer()),
  reserved_tokens: Nullable(t.Integer()),
  remaining_tokens: Nullable(t.Integer()),
  overrun_usd: Nullable(t.Number()),
  closed: t.Boolean(),
  window_start: Timestamp,
  resets_at: Nullable(Timestamp),
  managed_by: ManagedBy,
})

export const BudgetVerification = t.Object({
  id: Id,
  account: t.String({ description: 'the budget in this window, as `gateway.budgets.v1` names it' }),
  matches: Nullable(
    t.Boolean({
      description:
        'the account, the outcomes and a new fold say the same; null: it cannot be said, since not all could ' +
        'be read, or since it is being spent from at this moment',
    }),
  ),
  folds_alike: Nullable(
    t.Boolean({
      description: 'the account, folded anew from the log, is the one that is served; null: not all of it was read',
    }),
  ),
  outcomes: t.Integer({ description: 'outcomes that were charged' }),
  complete: t.Boolean({
    description:
      'the log still holds all outcomes of this window, and all were read; else they come to less than was spent',
  }),
  unread_records: t.Integer({
    description: 'records that were left to read when the time was over (45 s): ask again, it goes on there',
  }),
  spent_usd: t.Number({ description: 'by the account' }),
  recomputed_usd: t.Number({ description: 'by the outcomes' }),
  difference_usd: t.Number({ description: 'of the two' }),
  spent_tokens: t.Integer({ description: 'by the account' }),
  recomputed_tokens: t.Integer({ description: 'by the outcomes' }),
  carried_usd: t.Number({ description: 'taken over when the windows were cut otherwise; in neither of the two' }),
  reserved_usd: t.Number({ description: 'held by leases' }),
  overrun_usd: t.Number({ description: 'billed beyond what was reserved' }),
})

const Moment = Nullable(Timestamp)

/** An instance that holds leases of a budget, or was retired. */
export const InstanceView = t.Object(
  {
    id: Id,
    live: t.Boolean({ description: 'It announces itself now: it is not to be given up.' }),
    self: t.Boolean({ description: 'it is the one that answers' }),
    build: Nullable(t.String({ description: 'version of its build; this and what follows is null unless it is live' })),
    started_at: Moment,
    announced_at: Nullable(t.String({ ...Timestamp, description: 'when it was last heard of' })),
    offset: Nullable(t.Integer({ description: 'next offset of the control log that it folds' })),
    tip: Nullable(t.String({ description: 'the newest decision that it has folded' })),
    digest: Nullable(t.String({ description: 'of its state; instances at one offset have one' })),
    lag_records: Nullable(
      t.Integer({ description: 'control records that the farthest instance has folded and this one has not' }),
    ),
    stored: Nullable(t.Integer({ description: 'a start without the brokers knows the control log up to here' })),
    clock_ahead_ms: Nullable(t.Integer({ description: 'how far its clock runs ahead of the log’s; negative: behind' })),
    degraded: Nullable(t.String({ description: 'why its state may not be the newest' })),
    holds_usd: t.Number({ description: 'of its leases, what it was not seen to spend or to give back' }),
    holds_tokens: t.Integer({ description: 'likewise' }),
    accounts: t.Integer({ description: 'budgets, in their windows, that it holds something of' }),
    last_seen_at: Nullable(
      t.String({
        ...Timestamp,
        description: 'when it last wrote something of budgets; one that has none to spend writes nothing for hours',
      }),
    ),
    retired_at: Moment,
    retired_for: Nullable(t.String({ description: 'what the operator gave as the reason' })),
  },
  { title: 'Instance' },
)

export const CacheRuleView = shown('CacheRule', {
  id: Id,
  tenant_id: OWNER,
  name: CacheRuleName,
  ...CacheRuleFields.properties,
  managed_by: ManagedBy,
})

export const ToolView = shown('Tool', {
  id: Id,
  name: ToolName,
  kind: ToolKind,
  owner: t.Union([t.Literal('global'), t.Literal('tenant')]),
  tenant_id: OWNER,
  enabled: t.Boolean(),
  executable: t.Boolean({ description: 'whether the gateway itself can run it' }),
  ...ToolFields.properties,
  managed_by: ManagedBy,
})

export const ToolPolicyView = shown('ToolPolicy', {
  id: Id,
  tenant_id: OWNER,
  name: ToolPolicyName,
  enabled: t.Boolean(),
  ...ToolPolicyFields.properties,
  managed_by: ManagedBy,
})

export const PriceCorrectionView = shown('PriceCorrection', { ...PriceCorrected.properties, managed_by: ManagedBy })

export const OperatorView = shown('Operator', {
  id: Id,
  username: Nullable(t.String({ description: 'null once it is erased' })),
  password_changed_at: Timestamp,
  sessions: t.Integer({ minimum: 0 }),
})

/** Response of `kill` of a provider. */
export const KillView = t.Object({ id: Id, killed: t.Boolean(), override: OverrideView }, { title: 'Kill' })

const DELETED = { deleted: t.Literal(true), id: Id }

/** Response of a DELETE, with counts of what was deleted along with it. */
export const deletion = (...counts: readonly string[]): TSchema =>
  t.Object({
    ...DELETED,
    ...Object.fromEntries(counts.map((name) => [name, t.Integer({ minimum: 0 })])),
  })

/** A deleted key is revoked, and stays listed. */
export const RevokedKey = t.Object({ ...DELETED, status: KEY.status, revoked_at: KEY.revoked_at })

/** Of its provider: `id` is the provider's too. */
export const RemovedCredential = t.Object({ ...DELETED, provider_id: Id, has_credential: t.Literal(false) })
