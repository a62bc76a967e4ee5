// Budgets: what a tenant may spend in a window, as a whole or on one key, model, provider or endpoint scope. Names and
// fields of the events are stored for ever. Spent amounts are not part of the row: they are counted from the log
// (docs/behaviour.md: "Budgets"), by the id of the budget and the start of the window.
import { usdOf } from '../../lib/money.ts'
import { type Static, t } from '../../lib/schema/schema.ts'
import { isTimeZone } from '../../lib/time/time-zone.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changeAction, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import type { EventRecord } from '../kernel/decision.ts'
import { changedFields, closed, Id, ManagedBy, Nullable, opened } from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'
import { limitsHeightOf } from './account-closing.ts'
import type { Amount } from './amount.ts'
import { MOST_ACCOUNTS } from './budget-events.ts'
import { BUDGET_SCOPES, type BudgetTarget, budgetTarget, requireTarget } from './budget-scope.ts'
import { isWindow, windowAt } from './budget-window.ts'
import { capNanoUsd } from './cap.ts'

// Checks of a budget's fields that need no state.

const LIMITS = ['limit_usd', 'limit_tokens', 'hard_cap_usd'] as const
/**
 * Whether it has `enabled` false and no limit: a field that it leaves out keeps its value in the budget that it ends.
 */
export const onlyEnds = (sent: Partial<BudgetFields>): boolean =>
  sent.enabled === false && LIMITS.every((name) => sent[name] === undefined)

const refuse = (message: string, param: string): never => {
  throw new Rejection('invalid', message, param)
}

/** Throws 400 for fields that are invalid for every budget. */
export const requireSound = (window: string, { alert_thresholds, timezone }: BudgetFields): void => {
  if (!isWindow(window)) refuse('"window" must be hour, day, week, month, lifetime, or from 1h to 8784h', 'window')
  if (!isTimeZone(timezone))
    refuse(`"${timezone}" is not the IANA name of a time zone, such as Europe/Berlin`, 'timezone')
  if (alert_thresholds.some((threshold, i) => i > 0 && threshold <= alert_thresholds[i - 1]!))
    refuse('"alert_thresholds" must ascend', 'alert_thresholds')
}

/** Throws 400 for limits that no budget may have. */
export const requireSoundLimits = (fields: BudgetFields): void => {
  const { limit_usd, limit_tokens, hard_cap_usd, soft_limit_usd, alert_thresholds } = fields
  if (limit_usd === null && limit_tokens === null && hard_cap_usd === null)
    refuse('a budget needs at least one of "limit_usd", "limit_tokens" and "hard_cap_usd"', 'limit_usd')
  if (soft_limit_usd !== null && limit_usd !== null && soft_limit_usd > limit_usd)
    refuse('"soft_limit_usd" must not be above "limit_usd"', 'soft_limit_usd')
  if (alert_thresholds.length > 0 && limit_usd === null && limit_tokens === null)
    refuse('"alert_thresholds" are shares of a limit: set "limit_usd" or "limit_tokens"', 'alert_thresholds')
}

// Bounds of the budgets in use, so that no record of a request names too many accounts.

/**
 * Bound of the budgets on one tenant, key, model, provider or endpoint scope: a request falls under those of one of
 * each, and under at most `MOST_ACCOUNTS` in all.
 */
export const MOST_OF_TARGET = Math.floor(MOST_ACCOUNTS / BUDGET_SCOPES.length)

/** Index key of a budget's target. */
export const targetKey = (tenantId: string, { type, id }: { readonly type: string; readonly id: string }): string =>
  `${tenantId}\0${type}\0${id.toLowerCase()}`

/** Throws where no further budget may be in use. */
export const requireFewBudgets = (state: ControlReader, tenantId: string, target: BudgetTarget): void => {
  const budgets = state.table('budgets')
  const inUse = budgets.find('target', targetKey(tenantId, target)).filter((id) => budgets.get(id)!.enabled)
  if (inUse.length < MOST_OF_TARGET) return
  const what = target.type === 'endpoint' ? 'endpoint scope' : target.type
  const message =
    `this ${what} has ${inUse.length} budgets that are in use, and may have ${MOST_OF_TARGET}: no request may fall ` +
    `under more than ${MOST_ACCOUNTS}`
  throw new Rejection('invalid', message, 'scope')
}

/** Upper bound of money: beyond it integers of nano-USD are not exact. */
const MOST_USD = 9_000_000
const Usd = t.Number({ minimum: 0, maximum: MOST_USD })
const NanoUsd = t.Integer({ minimum: 0, maximum: MOST_USD * 1e9 })
const Tokens = t.Integer({ minimum: 0, maximum: 1_000_000_000_000_000 })

export const BudgetWindow = t.String({
  minLength: 1,
  maxLength: 16,
  pattern: '^(?:hour|day|week|month|lifetime|[1-9]\\d{0,3}h)$',
  description: 'hour, day, week, month, lifetime, or a number of hours such as 12h',
})

/**
 * `id`: of a tenant or a key its id; of a provider, a model or an endpoint scope its id, name or slug. Optional for the
 * tenant itself.
 */
export const BudgetScope = t.Object({
  type: t.Union(BUDGET_SCOPES.map((type) => t.Literal(type))),
  id: t.Optional(t.String({ minLength: 1, maxLength: 256 })),
})

const Shared = {
  limit_tokens: Nullable(Tokens),
  calendar_aligned: t.Boolean(),
  /** IANA name: where the days of the calendar begin. */
  timezone: t.String({
    minLength: 1,
    maxLength: 64,
    description: 'the IANA name of a time zone, such as Europe/Berlin',
  }),
  /**
   * Shares of the limit at which an alert is recorded, ascending: 0.8 is 80 %. A list that goes beyond 10 is in
   * percent.
   */
  alert_thresholds: t.Array(t.Number({ exclusiveMinimum: 0, maximum: 1_000 }), { maxItems: 16 }),
  enforcement: t.Union([t.Literal('hard'), t.Literal('soft'), t.Literal('shadow')]),
  /** False: it has ended, and limits nothing. */
  enabled: t.Boolean(),
}

/**
 * The fields of a budget that clients may send, beside those that identify it. At least one of the limits and the cap
 * is needed.
 */
export const BudgetFields = closed(
  t.Object({
    limit_usd: Nullable(Usd),
    soft_limit_usd: Nullable(Usd),
    /** For each request by itself: one with a higher projected cost is refused. */
    hard_cap_usd: Nullable(Usd),
    ...Shared,
  }),
)
export type BudgetFields = Static<typeof BudgetFields>

const Mutable = {
  limit_nano_usd: Nullable(NanoUsd),
  soft_limit_nano_usd: Nullable(NanoUsd),
  hard_cap_nano_usd: Nullable(NanoUsd),
  ...Shared,
}
const Stored = t.Object(Mutable)
type Stored = Static<typeof Stored>

export const BudgetCreated = opened(
  t.Object({
    id: Id,
    tenant_id: Id,
    scope: t.Object({
      type: t.String({ minLength: 1, maxLength: 32 }),
      id: t.String({ minLength: 1, maxLength: 256 }),
    }),
    window: t.String({ minLength: 1, maxLength: 16 }),
    managed_by: ManagedBy,
    ...Mutable,
  }),
)
/** Only the fields that changed, and limits that were set to the same value. */
export const BudgetChanged = opened(
  t.Composite([t.Object({ id: Id, managed_by: t.Optional(ManagedBy) }), t.Partial(Stored)]),
)
export const BudgetDeleted = t.Object({ id: Id })

export interface BudgetRow extends Stamps, Readonly<Stored> {
  readonly id: string
  readonly tenant_id: string
  /**
   * `id`: of tenants, keys and providers their id; of models the name, of endpoint scopes the slug, which may come back
   * after they were deleted.
   */
  readonly scope: { readonly type: string; readonly id: string }
  readonly window: string
  readonly managed_by: ManagedBy
  /**
   * Grows with every decision about the budget, also over a deletion that was reverted: the newer of two copies of its
   * limits has the greater height.
   */
  readonly height: number
  /**
   * The height of the last decision that set a limit (even to the same value) or the enforcement: only such a decision
   * reopens what an overrun has closed. Absent: `height`.
   */
  readonly limits_height?: number
}

const FIELD_DEFAULTS: BudgetFields = {
  limit_usd: null,
  limit_tokens: null,
  soft_limit_usd: null,
  hard_cap_usd: null,
  calendar_aligned: true,
  timezone: 'UTC',
  alert_thresholds: [],
  enforcement: 'hard',
  enabled: true,
}
/** Defaults of the fields that a budget leaves out. */
export const BUDGET_DEFAULTS = { window: 'month', ...FIELD_DEFAULTS }

/** Index key that identifies a budget: there is one for each tenant, scope and window. */
export const budgetKey = (tenantId: string, scope: { type: string; id: string }, window: string): string =>
  `${tenantId}\0${scope.type}\0${scope.id.toLowerCase()}\0${window}`

/** The fields by which a decision sets the limits of a budget. */
const LIMITING = ['limit_nano_usd', 'limit_tokens', 'enforcement'] as const

const rows = changesOf<BudgetRow>('budgets')
const subject = (data: { id: string }): string => data.id
const shared = { since: 3, resource: 'budget', subject } as const

export const budget: Aggregate<BudgetRow, ControlReader> = {
  table: 'budgets',
  indexes: {
    tenant: (row) => row.tenant_id,
    identity: (row) => budgetKey(row.tenant_id, row.scope, row.window),
    provider: (row) => (row.scope.type === 'provider' ? row.scope.id : null),
    target: (row) => targetKey(row.tenant_id, row.scope),
  },
  events: {
    'budget.created': eventType({ schema: BudgetCreated, action: 'create', ...shared }),
    'budget.changed': eventType({ schema: BudgetChanged, action: changeAction, ...shared }),
    'budget.deleted': eventType({ schema: BudgetDeleted, action: 'delete', ...shared }),
  },
  evolve(state, { type, data }, meta) {
    const id = data.id as string
    const before = state.table('budgets').get(id)
    if (type === 'budget.created') {
      const heights = { height: meta.logAtMs, limits_height: meta.logAtMs }
      return before === undefined
        ? rows.created(id, { ...(data as Static<typeof BudgetCreated>), ...heights }, meta)
        : []
    }
    if (type === 'budget.deleted') return rows.removed(id, before)
    const height = Math.max((before?.height ?? 0) + 1, meta.logAtMs)
    const limits_height =
      LIMITING.some((name) => name in data) || before === undefined ? height : limitsHeightOf(before)
    return rows.changed(id, before, { ...(data as Static<typeof BudgetChanged>), height, limits_height }, meta)
  },
}

export type BudgetCommand =
  | ({
      /**
       * Replaces the budget of that tenant, scope and window; `id` is used only when there is none. A command that only
       * ends a budget (`wholeOf`) replaces nothing.
       */
      do: 'upsert'
      id: string
      tenant_id: string
      scope: Static<typeof BudgetScope>
      window: string
      managed_by: ManagedBy
      /** The account is closed: without other changes the limits are set again, to their values. */
      reopen?: boolean
    } & Partial<BudgetFields>)
  | { do: 'delete'; id: string }

const nanoOrNull = (usd: number | null, param: string): number | null => (usd === null ? null : capNanoUsd(usd, param))
const usdOrNull = (nanoUsd: number | null): number | null => (nanoUsd === null ? null : usdOf(nanoUsd))

/** The money of a row, as clients write it. */
export const moneyOf = (row: BudgetRow) => ({
  limit_usd: usdOrNull(row.limit_nano_usd),
  soft_limit_usd: usdOrNull(row.soft_limit_nano_usd),
  hard_cap_usd: usdOrNull(row.hard_cap_nano_usd),
})

/** The complete fields of the budget that a command requests. */
const wholeOf = (row: BudgetRow | undefined, sent: Partial<BudgetFields>): BudgetFields => {
  if (!onlyEnds(sent) || row === undefined) return { ...FIELD_DEFAULTS, ...sent }
  const { limit_tokens, calendar_aligned, timezone, alert_thresholds, enforcement, enabled } = row
  return { ...moneyOf(row), limit_tokens, calendar_aligned, timezone, alert_thresholds, enforcement, enabled, ...sent }
}

const storedOf = ({ limit_usd, soft_limit_usd, hard_cap_usd, ...rest }: BudgetFields): Stored => ({
  limit_nano_usd: nanoOrNull(limit_usd, 'limit_usd'),
  soft_limit_nano_usd: nanoOrNull(soft_limit_usd, 'soft_limit_usd'),
  hard_cap_nano_usd: nanoOrNull(hard_cap_usd, 'hard_cap_usd'),
  ...rest,
})

/** Throws 400 for fields that are invalid for every budget. */
export const requireSoundBudget = (window: string, sent: Partial<BudgetFields>): void => {
  const fields = { ...FIELD_DEFAULTS, ...sent }
  requireSound(window, fields)
  if (!onlyEnds(sent)) requireSoundLimits(fields)
  storedOf(fields)
}

export const decideBudget = (state: ControlReader, command: BudgetCommand): EventRecord[] => {
  const budgets = state.table('budgets')
  if (command.do === 'delete') {
    if (budgets.get(command.id) === undefined) throw new Rejection('not_found', `no budget has the id "${command.id}"`)
    return [{ type: 'budget.deleted', data: { id: command.id } }]
  }
  const { do: _, id, tenant_id, scope: given, window, managed_by, reopen = false, ...sent } = command
  if (state.table('tenants').get(tenant_id) === undefined)
    throw new Rejection('not_found', `no tenant has the id "${tenant_id}"`, 'tenant_id')
  const scope = budgetTarget(state, tenant_id, given)
  const [existing] = budgets.find('identity', budgetKey(tenant_id, scope, window))
  const row = existing === undefined ? undefined : budgets.get(existing)
  const fields = wholeOf(row, sent)
  requireSound(window, fields)
  requireSoundLimits(fields)
  const stored = storedOf(fields)
  if (row === undefined) {
    requireTarget(state, tenant_id, scope)
    if (fields.enabled) requireFewBudgets(state, tenant_id, scope)
    return [{ type: 'budget.created', data: { id, tenant_id, scope, window, managed_by, ...stored } }]
  }
  const changed = changedFields<BudgetRow>(row, stored)
  if (Object.keys(changed).length === 0) {
    const { limit_nano_usd, limit_tokens } = stored
    return reopen ? [{ type: 'budget.changed', data: { id: row.id, limit_nano_usd, limit_tokens } }] : []
  }
  if (changed.enabled === true) requireFewBudgets(state, tenant_id, scope)
  const owner = row.managed_by === managed_by ? {} : { managed_by }
  return [{ type: 'budget.changed', data: { id: row.id, ...changed, ...owner } }]
}

/** The target of a budget, in words. */
export const scopeText = ({ type, id }: BudgetRow['scope']): string =>
  type === 'tenant' ? 'this tenant' : `the ${type === 'endpoint' ? 'endpoint scope' : type} "${id}"`

/** When its present window ends; null: never. */
export const resetsAt = (row: BudgetRow, nowMs: number): string | null => {
  const { window, calendar_aligned: calendarAligned, timezone, created_at } = row
  const { endMs } = windowAt({ window, calendarAligned, timezone, anchorMs: Date.parse(created_at) }, nowMs)
  return endMs === null ? null : new Date(endMs).toISOString()
}

/** Amounts of a budget in its present window, nano-USD and tokens. */
export interface Standing {
  readonly spent: Amount
  readonly reserved: Amount
  readonly overrunNanoUsd: number
  readonly closed: boolean
}

/** What is neither spent nor reserved; null: there is no limit. */
const leftOf = (limit: number | null, spent: number, reserved: number): number | null =>
  limit === null ? null : Math.max(0, limit - spent - reserved)

/**
 * A budget as the API shows it, with the bounds of the window of this moment. `standing` null: the budget has ended and
 * is not counted, or this instance has not read its account yet.
 */
export const budgetView = (row: BudgetRow, nowMs: number, standing: Standing | null = null) => {
  const { limit_nano_usd, soft_limit_nano_usd: _, hard_cap_nano_usd: __, ...others } = row
  const { created_at, updated_at, revision, height: ___, limits_height: ____, ...rest } = others
  const { window, calendar_aligned: calendarAligned, timezone } = row
  const bounds = windowAt({ window, calendarAligned, timezone, anchorMs: Date.parse(created_at) }, nowMs)
  return {
    ...rest,
    ...moneyOf(row),
    spent_usd: standing === null ? null : usdOf(standing.spent.nano_usd),
    reserved_usd: standing === null ? null : usdOf(standing.reserved.nano_usd),
    remaining_usd:
      standing === null ? null : usdOrNull(leftOf(limit_nano_usd, standing.spent.nano_usd, standing.reserved.nano_usd)),
    spent_tokens: standing?.spent.tokens ?? null,
    reserved_tokens: standing?.reserved.tokens ?? null,
    remaining_tokens:
      standing === null ? null : leftOf(row.limit_tokens, standing.spent.tokens, standing.reserved.tokens),
    overrun_usd: standing === null ? null : usdOf(standing.overrunNanoUsd),
    closed: standing?.closed ?? false,
    window_start: new Date(bounds.startMs).toISOString(),
    resets_at: bounds.endMs === null ? null : new Date(bounds.endMs).toISOString(),
    created_at,
    updated_at,
    revision,
  }
}
