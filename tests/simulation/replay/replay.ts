// Plans random requests on a configuration that changes, records each as a gateway does, and plans it again from the
// JSON of its record on a state that was folded anew: order, rejections and reasons must come out as they were.
import { ControlState } from '../../../src/domain/control.ts'
import type { FrameRow, FrameTaken } from '../../../src/domain/events/health.ts'
import { PlanRecord } from '../../../src/domain/events/request.ts'
import type { EventRecord } from '../../../src/domain/kernel/decision.ts'
import { planOfPast } from '../../../src/http/admin/past-plan.ts'
import { readIntent } from '../../../src/inference/intent/intent.ts'
import type { Plan } from '../../../src/inference/plan/plan.ts'
import type { PlannedRequest } from '../../../src/inference/plan/plan-again.ts'
import { planner, type Route } from '../../../src/inference/plan/route.ts'
import { planRecord } from '../../../src/inference/records/plan-record.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { Value } from '../../../src/lib/schema/schema.ts'
import { foldFrame, frameOf } from '../../../src/state/health/frames.ts'
import { openCatalogue } from '../../../src/state/indexes/catalogue.ts'
import { createSteering } from '../../../src/state/indexes/live-steering.ts'
import type { KeyEntry } from '../../../src/state/port.ts'
import { GatewayError } from '../../../src/wire/errors.ts'
import { bodyOf } from '../../faults/explained/requests.ts'
import { type Dice, dice } from '../../faults/explained/world.ts'
import { silent } from '../../services/postgres.ts'
import { atMsOf, beginning, fold, KEYS, nextDecision, POLICIES, revisionOf, TENANTS } from './world.ts'

export interface ReplayRun {
  readonly planned: number
  /** Refused before there was a plan: an unknown policy or scope, a blocked key. */
  readonly unplanned: number
  readonly decisions: number
  /** What was not equal, the first ten. */
  readonly flaws: readonly string[]
  readonly differences: number
  readonly strategies: Readonly<Record<string, number>>
  readonly reasons: Readonly<Record<string, number>>
  /** Plans whose first candidate is not the one that is called first, and plans that may fail over. */
  readonly skipped: number
  readonly failingOver: number
  readonly deletions: Readonly<Record<string, number>>
  readonly bytes: number
}

/** Requests between two decisions. */
const A_DECISION = 40

/** A process that plans: its own catalogue, and settings by which one kind has no credential. */
const planning = (state: ControlState, frame: FrameTaken, roll: Dice): Route => {
  const live = { control: state, refused: new Set<string>(), subscribe: () => () => {} }
  const catalogue = openCatalogue({
    live,
    env: {},
    kinds: { get: (kind: string) => ({ needsCredential: kind === 'openai', defaultBaseUrl: null, script: true }) },
    diagnostics: silent,
    dataKeys: { open: () => '', subscribe: () => () => {} },
  })
  const frames = { current: () => frameOf(frame.number, frame.at_ms, foldFrame(new Map(), frame)) }
  const userDigest = (tenantId: string, user: string) => sha256Hex(`${tenantId} ${user}`)
  return planner({ live, catalogue, steering: createSteering(live), frames, random: roll.draw, userDigest } as never)
}

/** Breakers, ejections, cool-downs, speeds and headroom of some candidates. */
const frameAt = (roll: Dice, state: ControlState, height: number): FrameTaken => {
  const maybe = (value: number) => (roll.chance(0.3) ? null : value)
  const candidates = [...state.table('models').rows()]
    .filter(() => roll.chance(0.8))
    .map(([id]): FrameRow => {
      const breaker = roll.one([0, 0, 0, 1, 2] as const)
      const speeds = [maybe(roll.below(900)), maybe(roll.below(9_000)), maybe(roll.draw() * 90)] as const
      return [
        id,
        breaker,
        roll.chance(0.1),
        roll.chance(0.1),
        roll.draw(),
        ...speeds,
        roll.below(9),
        maybe(roll.draw()),
        null,
      ]
    })
  return { number: height, at_ms: atMsOf(height), whole: true, part: 1, parts: 1, candidates }
}

const headersOf = ({ one, chance, below }: Dice): Record<string, string> => ({
  ...(chance(0.3) ? { 'x-gateway-policy': one([...POLICIES, 'nobody']) } : {}),
  ...(chance(0.2) ? { 'x-gateway-endpoint': one(['support', 'chat']) } : {}),
  ...(chance(0.1) ? { 'x-gateway-max-cost-usd': one(['0.0001', '0.01']) } : {}),
  ...(chance(0.05) ? { 'x-gateway-latency-target-ms': one(['30', '500']) } : {}),
  ...(chance(0.1) ? { 'x-gateway-no-fallback': 'true' } : {}),
  ...(chance(0.05) ? { 'x-gateway-region': one(['eu', 'us']) } : {}),
  ...(chance(0.05) ? { 'x-gateway-sensitivity': 'phi' } : {}),
  ...(chance(0.1) ? { 'x-gateway-batch': 'true' } : {}),
  ...(chance(0.3) ? { 'x-session': `session-${below(9)}` } : {}),
})

const keyOf = (state: ControlState, roll: Dice): KeyEntry => {
  const place = roll.below(KEYS.length)
  const id = KEYS[place]!
  const routingPolicyId = state.table('keys').get(id)?.routing_policy_id ?? null
  return { id, tenantId: TENANTS[place % 2]!, scopes: ['inference'], expiresAtMs: null, routingPolicyId }
}

interface Tally {
  planned: number
  unplanned: number
  differences: number
  skipped: number
  failingOver: number
  bytes: number
  readonly flaws: string[]
  readonly strategies: Map<string, number>
  readonly reasons: Map<string, number>
  readonly deletions: Map<string, number>
}

const count = (of: Map<string, number>, name: string) => of.set(name, (of.get(name) ?? 0) + 1)

/** The record of a plan as it comes back from the log. */
const recorded = (plan: Plan, key: KeyEntry, height: number): { record: PlannedRequest; bytes: number } => {
  const { intent } = plan.input
  const own = planRecord(plan, revisionOf(height))
  const flaw = Value.Errors(PlanRecord, own).First()
  if (flaw !== undefined) throw new Error(`a record is not what its schema says: ${flaw.path} ${flaw.message}`)
  const json = JSON.stringify({
    ...{ requested_model: intent.model, key_id: key.id, stream: intent.stream, plan: own },
    ...{ at_ms: atMsOf(height), tenant_id: key.tenantId, endpoint: plan.policy.scope?.slug ?? null },
    ...{ policy_id: plan.policy.id, first_model_id: plan.ordered[0]?.modelId ?? null },
  })
  return { record: JSON.parse(json), bytes: json.length }
}

/** In what the plan that is made again is another; [] when it is the same. */
const unequal = (plan: Plan, record: PlannedRequest, past: ControlState, frames: readonly FrameTaken[]): string[] => {
  const point = { revision: record.plan.revision, atMs: record.at_ms }
  const { plan: again, differences } = planOfPast(past, point, { record, frames, whatIf: null })
  if (again === null) return ['it is refused']
  const pairs: [string, unknown, unknown][] = [
    ['differences', differences, []],
    ['candidates', again.candidates.map(({ model_id }) => model_id), plan.candidates.map(({ modelId }) => modelId)],
    ['reasons', again.candidates.map(({ rejected_reason }) => rejected_reason), plan.reasons],
    ['order', again.order, plan.order],
    ['strategy', again.strategy, plan.strategy],
    ['first', again.chosen?.model_id ?? null, plan.ordered[0]?.modelId ?? null],
  ]
  return pairs.flatMap(([name, now, then]) =>
    Bun.deepEquals(now, then) ? [] : [`${name}: ${JSON.stringify(now)} and not ${JSON.stringify(then)}`],
  )
}

/** Plans one request and plans it again. */
const replayed = (route: Route, now: ControlState, past: ControlState, frame: FrameTaken, roll: Dice, tally: Tally) => {
  const body = bodyOf(roll)
  const key = keyOf(now, roll)
  const headers = new Headers(headersOf(roll))
  let plan: Plan
  try {
    plan = route(readIntent(JSON.stringify(body), body, headers), key, headers, atMsOf(frame.number))
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    tally.unplanned++
    return
  }
  const { record, bytes } = recorded(plan, key, frame.number)
  tally.planned++
  tally.bytes += bytes
  count(tally.strategies, plan.strategy)
  for (const reason of plan.reasons) if (reason !== null) count(tally.reasons, reason)
  if (plan.primary !== null && plan.ordered[0] !== plan.primary) tally.skipped++
  if (plan.ordered.length > 1) tally.failingOver++
  const wrong = unequal(plan, record, past, [JSON.parse(JSON.stringify(frame))])
  if (wrong.length === 0) return
  tally.differences++
  if (tally.flaws.length < 10) tally.flaws.push(`${JSON.stringify(record)}: ${wrong.join('; ')}`)
}

/** So many requests, in a world of this seed. */
export const replayRequests = (requests: number, seed: number): ReplayRun => {
  const roll = dice(seed)
  const [now, folded] = [new ControlState(), new ControlState()]
  const tally: Tally = {
    ...{ planned: 0, unplanned: 0, differences: 0, skipped: 0, failingOver: 0, bytes: 0, flaws: [] },
    ...{ strategies: new Map(), reasons: new Map(), deletions: new Map() },
  }
  let height = 0
  let events: readonly EventRecord[] = beginning(roll)
  while (tally.planned < requests) {
    height++
    fold(now, height, events)
    fold(folded, height, JSON.parse(JSON.stringify(events)))
    for (const { type } of events) if (type.endsWith('.deleted')) count(tally.deletions, type)
    const frame = frameAt(roll, now, height)
    const route = planning(now, frame, roll)
    // A view of its own: what the history builds for a state is built once.
    const past = new ControlState(folded)
    for (let i = 0; i < A_DECISION && tally.planned < requests; i++) replayed(route, now, past, frame, roll, tally)
    events = nextDecision(roll, now, height + 1)
  }
  const { strategies, reasons, deletions, ...counts } = tally
  const sorted = (of: Map<string, number>) => Object.fromEntries([...of].sort((a, b) => b[1] - a[1]))
  return {
    ...counts,
    ...{ decisions: height, strategies: sorted(strategies), reasons: sorted(reasons), deletions: sorted(deletions) },
  }
}
