// `/admin/v1/budgets`: budgets of a tenant, identified by tenant, scope and window.
import {
  BUDGET_DEFAULTS,
  BudgetFields,
  type BudgetRow,
  BudgetScope,
  BudgetWindow,
  budgetKey,
  budgetView,
  decideBudget,
} from '../../../domain/budgets/budget.ts'
import { budgetTarget } from '../../../domain/budgets/budget-scope.ts'
import type { ControlReader } from '../../../domain/control.ts'
import { closed } from '../../../domain/kernel/fields.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import type { IdPrefix } from '../../../lib/crypto/ids.ts'
import { usdOf } from '../../../lib/money.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { Budgets } from '../../../state/budgets/budgets.ts'
import type { Commit, LiveState } from '../../../state/port.ts'
import type { VerifyBudget } from '../../../upkeep/budgets/budget-verification.ts'
import { GatewayError } from '../../../wire/errors.ts'
import { type Principal, seesTenant, tenantFor } from '../../auth.ts'
import { BudgetVerification, BudgetView } from '../answers/resources.ts'
import { Switch, statusOf } from '../body-fields.ts'
import { listed, Paging, tenantOfQuery } from '../list.ts'
import { type AdminRoute, route } from '../route.ts'
import { rowAfter, write } from '../write.ts'

export interface BudgetDeps {
  readonly live: Pick<LiveState, 'control' | 'status'>
  readonly commit: Commit
  newId(prefix: IdPrefix): string
  nowMs(): number
  readonly budgets: Pick<Budgets, 'standing' | 'caughtUp' | 'instances'>
  readonly verifyBudget: VerifyBudget
}

const READ = ['usage:read', 'tenants:admin'] as const
const WRITE = ['tenants:admin'] as const
/** Fields that a GET adds to the row. */
const COMPUTED = [
  ...['spent_usd', 'reserved_usd', 'remaining_usd', 'spent_tokens', 'reserved_tokens', 'remaining_tokens'],
  ...['overrun_usd', 'closed', 'window_start', 'resets_at'],
] as const
/** Standing of a budget that was just created: its accounts are still being read. */
const CAUGHT_UP_MS = 500

const BudgetBody = closed(
  t.Composite([
    t.Object({
      tenant_id: t.Optional(t.String({ minLength: 1, maxLength: 64 })),
      scope: t.Optional(BudgetScope),
      window: t.Optional(BudgetWindow),
      status: Switch.status,
    }),
    t.Partial(BudgetFields),
  ]),
)

/** The budget of this id if the caller may see it; another tenant's does not exist. */
const visibleBudget = (state: ControlReader, principal: Principal, id: string): BudgetRow => {
  const row = state.table('budgets').get(id)
  if (row === undefined || !seesTenant(principal, row.tenant_id)) {
    throw new Rejection('not_found', `no budget has the id "${id}"`)
  }
  return row
}

/** A budget as it stands. */
const shown = async (row: BudgetRow, { budgets, nowMs }: BudgetDeps) => {
  if (row.enabled) await budgets.caughtUp(row.tenant_id, CAUGHT_UP_MS)
  return budgetView(row, nowMs(), budgets.standing(row))
}

const listBudgets = ({ live, nowMs, budgets }: BudgetDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/budgets',
    scopes: READ,
    summary: 'List the budgets of a tenant, or of all tenants that the key sees',
    rows: 'budgets',
    query: t.Object({ tenant_id: t.Optional(t.String()), ...Paging }),
    answer: BudgetView,
    async handle({ principal, query }) {
      const tenantId = tenantOfQuery(live.control, principal, query.tenant_id)
      const rows = [...live.control.table('budgets').rows()]
        .map(([, row]) => row)
        .filter((row) => (tenantId === undefined ? seesTenant(principal, row.tenant_id) : row.tenant_id === tenantId))
      const atMs = nowMs()
      const tenants = new Set(rows.filter(({ enabled }) => enabled).map(({ tenant_id }) => tenant_id))
      await Promise.all([...tenants].map((id) => budgets.caughtUp(id, CAUGHT_UP_MS)))
      return { body: listed('budgets', rows, query, (row) => budgetView(row, atMs, budgets.standing(row))) }
    },
  })

const getBudget = (deps: BudgetDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/budgets/:id',
    scopes: READ,
    summary: 'One budget',
    answer: BudgetView,
    async handle({ principal, params }) {
      return { body: await shown(visibleBudget(deps.live.control, principal, params.id), deps) }
    },
  })

const upsertBudget = (deps: BudgetDeps): AdminRoute =>
  route({
    method: 'PUT',
    path: '/budgets',
    scopes: WRITE,
    summary:
      'Replace the budget of this tenant, scope and window, or create it; what was spent stays. `enabled` ' +
      'false ends it, and where no limit is said leaves the rest as it is. One that an overrun has closed ' +
      'opens where its limits or its enforcement change, or where nothing does',
    body: BudgetBody,
    dropped: COMPUTED,
    answer: BudgetView,
    async handle(call) {
      const {
        tenant_id,
        scope = { type: 'tenant' },
        window = BUDGET_DEFAULTS.window,
        status,
        enabled,
        ...given
      } = call.body
      const owner = tenantFor(call.principal, tenant_id)
      const command = {
        ...given,
        do: 'upsert',
        id: deps.newId('bud'),
        tenant_id: owner,
        scope,
        window,
        enabled: statusOf({ status, enabled }) !== 'disabled',
        managed_by: 'api',
      } as const
      const existing = (state: ControlReader): BudgetRow | undefined => {
        const key = budgetKey(owner, budgetTarget(state, owner, scope), command.window)
        const [id] = state.table('budgets').find('identity', key)
        return id === undefined ? undefined : state.table('budgets').get(id)
      }
      // Only the log states whether the budget is closed.
      if (deps.live.control.table('budgets').find('tenant', owner).length > 0)
        await deps.budgets.caughtUp(owner, CAUGHT_UP_MS)
      let found: BudgetRow | undefined
      const result = await write(deps.commit, call, existing, (state) => {
        found = existing(state)
        const reopen = found !== undefined && deps.budgets.standing(found)?.closed === true
        return decideBudget(state, { ...command, reopen })
      })
      // A write that changes nothing returns the row that it found.
      const row = rowAfter(result, 'budgets') ?? found!
      return { body: await shown(row, deps), revision: result.revision }
    },
  })

const deleteBudget = ({ commit }: BudgetDeps): AdminRoute =>
  route({
    method: 'DELETE',
    path: '/budgets/:id',
    scopes: WRITE,
    summary: 'Delete a budget: nothing is limited by it any more',
    async handle(call) {
      const id = call.params.id
      const result = await write(
        commit,
        call,
        (state) => state.table('budgets').get(id),
        (state) => {
          visibleBudget(state, call.principal, id)
          return decideBudget(state, { do: 'delete', id })
        },
      )
      return { body: { deleted: true, id }, revision: result.revision }
    },
  })

/** Of the compared figures, the account is what requests are held to; the outcomes are what they cost. */
const verify = (deps: BudgetDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/budgets/:id/verify',
    scopes: WRITE,
    summary: 'Recompute what a budget has spent in this window from the log, and compare',
    answer: BudgetVerification,
    async handle({ principal, params, request }) {
      const row = visibleBudget(deps.live.control, principal, params.id)
      const verdict = row.enabled ? await deps.verifyBudget(row, request.signal) : null
      if (verdict === null) {
        const why = row.enabled ? 'the log cannot be read at the moment' : 'it has ended: nothing is counted of it'
        throw new GatewayError(row.enabled ? 'upstream_error' : 'invalid_request', why, { retryable: row.enabled })
      }
      const revision = deps.live.status().tip
      const { spent, recomputed, carried, reserved, overrunNanoUsd, foldsAlike, unread, ...rest } = verdict
      return {
        body: {
          id: row.id,
          ...rest,
          folds_alike: foldsAlike,
          unread_records: unread,
          spent_usd: usdOf(spent.nano_usd),
          recomputed_usd: usdOf(recomputed.nano_usd),
          difference_usd: usdOf(spent.nano_usd - recomputed.nano_usd),
          spent_tokens: spent.tokens,
          recomputed_tokens: recomputed.tokens,
          carried_usd: usdOf(carried.nano_usd),
          reserved_usd: usdOf(reserved.nano_usd),
          overrun_usd: usdOf(overrunNanoUsd),
        },
        revision,
      }
    },
  })

export const budgetRoutes = (deps: BudgetDeps): AdminRoute[] => [
  verify(deps),
  listBudgets(deps),
  getBudget(deps),
  upsertBudget(deps),
  deleteBudget(deps),
]
