// `/admin/v1/instances`: the live instances as they stand, those that hold leases of budgets, and the retirement of one
// that is dead and whose disk will not come back.

import { decideRetirement, RetirementReason } from '../../../domain/budgets/retirement.ts'
import type { ControlReader } from '../../../domain/control.ts'
import { closed, Nullable } from '../../../domain/kernel/fields.ts'
import { usdOf } from '../../../lib/money.ts'
import { t } from '../../../lib/schema/schema.ts'
import type { Budgets } from '../../../state/budgets/budgets.ts'
import type { Commit, LiveState } from '../../../state/port.ts'
import { ACTIVE_MS } from '../../../upkeep/budgets/retirement.ts'
import type { InstanceStanding } from '../../../upkeep/instances/instances.ts'
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
  /** What they announce, this one first. */
  instanceStandings(): readonly InstanceStanding[]
}

const timeOf = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())

type ViewDeps = Pick<InstanceDeps, 'budgets' | 'liveInstances' | 'instanceStandings'>

/** What is unknown of an instance that does not announce itself. */
const SILENT = {
  ...{ build: null, started_at: null, announced_at: null, offset: null, tip: null, digest: null },
  ...{ lag_records: null, stored: null, clock_ahead_ms: null, degraded: null },
}

const announcedOf = ({ announced, lagRecords, heardAtMs }: InstanceStanding) => ({
  build: announced.build,
  started_at: announced.started_at ?? null,
  announced_at: timeOf(heardAtMs),
  offset: announced.offset,
  tip: announced.tip,
  digest: announced.digest,
  lag_records: lagRecords,
  stored: announced.stored ?? null,
  clock_ahead_ms: announced.clock_ahead_ms ?? null,
  degraded: announced.degraded,
})

/**
 * The instances that announce themselves, this one first; then those that hold leases, the most recently active first;
 * then retired ones that hold none.
 */
const viewsOf = (state: ControlReader, { budgets, liveInstances, instanceStandings }: ViewDeps) => {
  const [self] = liveInstances()
  const standings = new Map(instanceStandings().map((each) => [each.announced.instance, each]))
  const live = new Set([...standings.keys(), ...liveInstances()])
  const retirements = new Map(state.table('retirements').rows())
  const holding = budgets.instances()
  const view = (id: string, known: (typeof holding)[number] | undefined) => ({
    id,
    live: live.has(id),
    self: id === self,
    ...(standings.has(id) ? announcedOf(standings.get(id)!) : SILENT),
    holds_usd: usdOf(known?.held.nano_usd ?? 0),
    holds_tokens: known?.held.tokens ?? 0,
    accounts: known?.accounts ?? 0,
    last_seen_at: timeOf(known?.lastAtMs ?? null),
    retired_at: timeOf(retirements.get(id)?.at_ms ?? null),
    retired_for: retirements.get(id)?.reason ?? null,
  })
  const held = new Map(holding.map((each) => [each.id, each]))
  const ids = new Set([...live, ...held.keys(), ...retirements.keys()])
  return [...ids].map((id) => view(id, held.get(id)))
}

const listInstances = (deps: InstanceDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/instances',
    scopes: ['*'],
    past: false,
    summary: 'The live instances as they stand, those that hold something of budgets, and those that were given up',
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
