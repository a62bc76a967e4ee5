// `/admin/v1/instances`: the instances that hold leases of budgets, and the retirement of one that is dead and whose
// disk will not come back.

import { decideRetirement, RetirementReason } from '../../../domain/budgets/retirement.ts'
import type { ControlReader } from '../../../domain/control.ts'
import { closed, Nullable } from '../../../domain/kernel/fields.ts'
import { usdOf } from '../../../lib/money.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { Budgets } from '../../../state/budgets/budgets.ts'
import type { Commit, LiveState } from '../../../state/port.ts'
import { ACTIVE_MS } from '../../../upkeep/budgets/retirement.ts'
import { InstanceView } from '../answers/resources.ts'
import { listed, Paging } from '../list.ts'
import { type AdminRoute, route } from '../route.ts'
import { write } from '../write.ts'

export interface InstanceDeps {
  readonly live: Pick<LiveState, 'control'>
  readonly commit: Commit
  nowMs(): number
  readonly budgets: Pick<Budgets, 'standing' | 'caughtUp' | 'instances'>
  /** Ids of the instances that announce themselves, with this one. They may publish nothing about budgets for hours. */
  liveInstances(): readonly string[]
}

const timeOf = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())

/** Instances that hold leases, the most recently active first, then retired ones that hold none. */
const viewsOf = (state: ControlReader, { budgets, liveInstances }: Pick<InstanceDeps, 'budgets' | 'liveInstances'>) => {
  const live = new Set(liveInstances())
  const retirements = new Map(state.table('retirements').rows())
  const holding = budgets.instances()
  const view = (id: string, known: (typeof holding)[number] | undefined) => ({
    id,
    live: live.has(id),
    holds_usd: usdOf(known?.held.nano_usd ?? 0),
    holds_tokens: known?.held.tokens ?? 0,
    accounts: known?.accounts ?? 0,
    last_seen_at: timeOf(known?.lastAtMs ?? null),
    retired_at: timeOf(retirements.get(id)?.at_ms ?? null),
    retired_for: retirements.get(id)?.reason ?? null,
  })
  const shown = new Set(holding.map(({ id }) => id))
  const gone = [...retirements.keys()].filter((id) => !shown.has(id))
  return [...holding.map((each) => view(each.id, each)), ...gone.map((id) => view(id, undefined))]
}

const listInstances = (deps: InstanceDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/instances',
    scopes: ['*'],
    past: false,
    summary: 'Instances that hold something of budgets, and those that were given up',
    rows: 'instances',
    query: t.Object(Paging),
    answer: InstanceView,
    handle: ({ query }) => ({
      body: listed('instances', viewsOf(deps.live.control, deps), query, (each) => each),
    }),
  })

const retireInstance = (deps: InstanceDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/instances/:id/retire',
    scopes: ['*'],
    summary:
      'Give up an instance that is dead and whose disk will not come back: what it holds of budgets is free ' +
      'within seconds, but for what it is known to have spent',
    body: closed(t.Object({ reason: t.Optional(Nullable(RetirementReason)) })),
    bodyOptional: true,
    answer: InstanceView,
    async handle(call) {
      const id = call.params.id
      const { reason = null } = call.body
      const result = await write(
        deps.commit,
        call,
        (state) => state.table('retirements').get(id),
        (state) => {
          const known = deps.budgets.instances().find((each) => each.id === id)
          const agoMs = known === undefined ? 0 : deps.nowMs() - known.lastAtMs
          const lastRecordAgoS = agoMs < ACTIVE_MS ? Math.max(0, Math.floor(agoMs / 1_000)) : null
          const isLive = deps.liveInstances().includes(id)
          return decideRetirement(state, { id, reason, holds: known !== undefined, isLive, lastRecordAgoS })
        },
      )
      const [view] = viewsOf(deps.live.control, deps).filter((each) => each.id === id)
      return { body: view, revision: result.revision }
    },
  })

export const instanceRoutes = (deps: InstanceDeps): AdminRoute[] => [listInstances(deps), retireInstance(deps)]
