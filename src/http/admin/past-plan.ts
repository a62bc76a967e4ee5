// Runs in the history thread: plans a recorded request again on a state of the past.
import type { ControlState } from '../../domain/control.ts'
import type { FrameTaken } from '../../domain/events/health.ts'
import type { PolicyRow } from '../../domain/steering/policy.ts'
import { type PlanView, planView } from '../../inference/plan/explain.ts'
import {
  type Configuration,
  differencesOf,
  type PlannedRequest,
  repeatPlan,
  unrecorded,
} from '../../inference/plan/plan-again.ts'
import { policyResolver } from '../../inference/plan/policies.ts'
import { STILL } from '../../state/health/frame.ts'
import { foldFrame, frameOf, type SignalRows } from '../../state/health/frames.ts'
import type { PastPoint } from '../../state/history/history-port.ts'
import { openCatalogue } from '../../state/indexes/catalogue.ts'
import { createSteering } from '../../state/indexes/live-steering.ts'
import type { LiveState } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'

/** What the history thread gets. All of it can be copied. */
export interface PlanRead {
  readonly record: PlannedRequest
  /** The records from which the frame is made; [] when there are none. */
  readonly frames: readonly FrameTaken[]
  /** Null: the plan as it was made. */
  readonly whatIf: {
    /** The policy to use instead: its current row, or its id for its row as of the moment. Null: none. */
    readonly policy: PolicyRow | string | null
    /** Uses the overrides of that moment instead of those of the request's time. */
    readonly isAsOf: boolean
    readonly withoutAdapter: readonly string[]
  } | null
}

export interface PlanReply {
  readonly kind: 'plan'
  /** Null: the request is refused before it is planned, or the policy does not exist. */
  readonly plan: PlanView | null
  readonly refused: { readonly code: string; readonly message: string } | null
  readonly policyUnknown: boolean
  /** Fields of the plan, as it was made, that differ from the record. */
  readonly differences: readonly string[]
  /** Inputs of another plan that the record does not hold. */
  readonly missing: readonly string[]
}

const NOTHING: PlanReply = {
  kind: 'plan',
  plan: null,
  refused: null,
  policyUnknown: false,
  differences: [],
  missing: [],
}

/** Pure: equal states, moments and records give equal results. */
export const planOfPast = (state: ControlState, { atMs }: PastPoint, read: PlanRead): PlanReply => {
  const { record, frames, whatIf } = read
  const configuration = configurationOf(state)
  const named = whatIf?.policy ?? null
  const policy = typeof named === 'string' ? (state.table('policies').get(named) ?? null) : named
  const isSeen = policy !== null && (policy.tenant_id === null || policy.tenant_id === record.tenant_id)
  if (named !== null && !isSeen) return { ...NOTHING, policyUnknown: true }
  const again = repeatPlan(record, configuration, {
    frame: frameFrom(frames),
    atMs: whatIf?.isAsOf ? atMs : record.at_ms,
    whatIf: whatIf === null ? null : { policy, withoutAdapter: new Set(whatIf.withoutAdapter) },
  })
  if (again instanceof GatewayError) {
    const refused = { code: again.code, message: again.message }
    return { ...NOTHING, refused, differences: whatIf === null ? ['refused'] : [] }
  }
  const plan = planView(again)
  return {
    ...NOTHING,
    plan,
    refused: plan.refused,
    differences: whatIf === null ? differencesOf(again, record) : [],
    missing: whatIf === null ? [] : unrecorded(again, record, configuration),
  }
}

const frameFrom = (frames: readonly FrameTaken[]) => {
  const last = frames.at(-1)
  if (last === undefined) return STILL
  const rows = frames.reduce<SignalRows>(foldFrame, new Map())
  return frameOf(last.number, last.at_ms, rows)
}

/** Built once for each state, since a page of explanations uses one state many times. Released with the state. */
const known = new WeakMap<ControlState, Configuration>()

const configurationOf = (state: ControlState): Configuration => {
  const held = known.get(state)
  if (held !== undefined) return held
  const live: Pick<LiveState, 'control' | 'subscribe' | 'refused'> = {
    control: state,
    refused: new Set(),
    subscribe: () => () => {},
  }
  const made: Configuration = {
    live,
    catalogue: openCatalogue({
      live,
      env: {},
      kinds: EVERY_KIND,
      diagnostics: SILENT,
      dataKeys: { open: () => '', subscribe: () => () => {} },
    }),
    steering: createSteering(live),
    policyOf: policyResolver(live),
  }
  known.set(state, made)
  return made
}

/**
 * Planning makes no calls, so that no provider needs an address or a secret. The record lists providers without an
 * adapter.
 */
const EVERY_KIND = { get: () => ({ needsCredential: false, defaultBaseUrl: null, script: true }) }

const quiet = () => {}
const SILENT = { debug: quiet, info: quiet, warn: quiet, error: quiet }
