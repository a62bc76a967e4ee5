// Checks of a provider that an operator requested, and their results: tests, detections of capabilities,
// synchronisations of models. The state holds the last ones of each provider; the chain, and so the audit log, holds
// all of them.
import { type Static, t } from '../../lib/schema/schema.ts'
import type { ControlReader } from '../control.ts'
import { CostBasis } from '../events/request.ts'
import { type Aggregate, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import type { EventRecord } from '../kernel/decision.ts'
import { Id, Nullable, opened } from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'
import type { RowChange } from '../kernel/tables.ts'
import { CAPABILITIES, decideModel } from './model.ts'

/** Bound of the tests of one provider, of all kinds together; a new test replaces the oldest. */
export const MOST_TESTS = 50
/** Bound of the probes among them: programs request probes repeatedly, and would push out tests that people ran. */
export const MOST_TESTED_PROBES = 10
/** Results of one event: a detection has one for each model. */
export const MOST_RESULTS = 24
export const DETAIL_CHARS = 400
/** The text of a result, cut without splitting a character. */
export const cutDetail = (text: string): string =>
  text.length <= DETAIL_CHARS ? text : `${text.slice(0, DETAIL_CHARS - 3).toWellFormed()}...`

const Count = t.Integer({ minimum: 0 })
const Names = t.Array(t.String({ minLength: 1, maxLength: 64 }), { maxItems: 32 })

/** `skipped`: the check did not run; `detail` gives the reason. */
export const CheckStatus = t.Union([t.Literal('passed'), t.Literal('failed'), t.Literal('skipped')])
export type CheckStatus = Static<typeof CheckStatus>

/** At most so many names of a listing are listed by name. */
export const MOST_LEFT_OUT = 32
export const LeftOut = t.Object({
  name: Nullable(
    t.String({ maxLength: 256 }),
    'As the provider lists it; null: several, of which `reason` says how many.',
  ),
  reason: t.String({ maxLength: DETAIL_CHARS }),
})
export type LeftOut = Static<typeof LeftOut>

/** The result of a synchronisation: listed names that are new, and those that exist already or cannot be registered. */
export const SyncCounts = t.Object({
  created: Count,
  skipped: Count,
  total: Count,
  capability_source: t.String({ minLength: 1, maxLength: 32 }),
  capabilities_filled: Count,
  left_out: t.Optional(
    t.Array(LeftOut, {
      maxItems: MOST_LEFT_OUT + 1,
      description: 'Listed names that are not there and cannot be registered; they are among those skipped.',
    }),
  ),
  revisions: t.Optional(
    t.Array(t.String({ pattern: '^[0-9a-f]{64}$' }), {
      maxItems: 128,
      description: 'The decisions that created the models, in their order: each can be taken back.',
    }),
  ),
})
export type SyncCounts = Static<typeof SyncCounts>

/** The result of one question to a model. */
export const RecordedVerdict = t.Object({
  capability: t.String({ minLength: 1, maxLength: 64, description: 'What the model was asked for.' }),
  verdict: t.String({ maxLength: 32, description: '`proven`, `disproved`, `indeterminate` or `skipped`.' }),
  detail: t.String({
    maxLength: DETAIL_CHARS,
    description: 'Why, for people; cut when many models were asked at once.',
  }),
  latency_ms: Count,
})

/** One check. `detail` never holds a secret, a prompt or an answer. Members without a value are left out. */
export const CheckResult = t.Object({
  /**
   * `connectivity`, `models`, `sample`; `probe` of a probe; `capabilities` of a detection (one for each model), `sync`
   * of a synchronisation.
   */
  check: t.String({ minLength: 1, maxLength: 32 }),
  status: CheckStatus,
  latency_ms: Count,
  detail: t.String({ maxLength: DETAIL_CHARS }),
  error_code: t.Optional(t.String({ maxLength: 64 })),
  upstream_status: t.Optional(t.Integer()),
  /** Number of models in the listing. */
  models: t.Optional(Count),
  /** Registry name, of a check that calls a model. */
  model: t.Optional(t.String({ maxLength: 256 })),
  /** The outcome that charges a sample. */
  request_id: t.Optional(Id),
  prompt_tokens: t.Optional(Nullable(Count)),
  completion_tokens: t.Optional(Nullable(Count)),
  cost_nano_usd: t.Optional(Nullable(Count)),
  cost_basis: t.Optional(CostBasis),
  /** Capabilities by their verdict. */
  proven: t.Optional(Names),
  disproved: t.Optional(Names),
  indeterminate: t.Optional(Names),
  unasked: t.Optional(Names),
  verdicts: t.Optional(
    t.Array(RecordedVerdict, { maxItems: 32, description: 'Of a detection: each question, in the order of asking.' }),
  ),
  sync: t.Optional(SyncCounts),
})
export type CheckResult = Static<typeof CheckResult>

export const TestKind = t.Union([t.Literal('test'), t.Literal('detection'), t.Literal('sync')])
export type TestKind = Static<typeof TestKind>

export const ProviderTested = t.Object({
  id: Id,
  provider_id: Id,
  kind: TestKind,
  /** No check failed. */
  success: t.Boolean(),
  results: t.Array(CheckResult, { minItems: 1, maxItems: MOST_RESULTS }),
  models_left: t.Optional(
    t.Integer({ minimum: 0, description: 'Of a detection: the models that it had no room for.' }),
  ),
})
export type ProviderTested = Static<typeof ProviderTested>

/** The check of a probe. A probe with an `Idempotency-Key` is recorded as a test that has this check alone. */
export const PROBE = 'probe'

/** The kind of test, as it is shown. */
export const shownKind = ({ kind, results }: Pick<ProviderTested, 'kind' | 'results'>): TestKind | typeof PROBE =>
  kind === 'test' && results[0]?.check === PROBE ? PROBE : kind

export interface ProviderTestRow extends Stamps, Readonly<ProviderTested> {
  /** From 1, within its provider: the order of the chain. */
  readonly number: number
}

const rows = changesOf<ProviderTestRow>('tests')
const ACTIONS: Readonly<Record<string, string>> = { detection: 'detect', sync: 'sync' }

/** The tests of a provider, the newest first. */
export const testsOf = (state: ControlReader, providerId: string): ProviderTestRow[] => {
  const tests = state.table('tests')
  return tests
    .find('provider', providerId)
    .map((id) => tests.get(id)!)
    .sort((a, b) => b.number - a.number)
}

/** The rows that are removed with a provider, in an order that the fold may depend on. */
export const removedTests = (state: ControlReader, providerId: string): RowChange[] =>
  testsOf(state, providerId).map((row) => ({ table: 'tests', id: row.id, before: row, after: null }))

export const providerTest: Aggregate<ProviderTestRow, ControlReader> = {
  table: 'tests',
  indexes: { provider: (row) => row.provider_id },
  events: {
    'provider.tested': eventType({
      schema: opened(ProviderTested),
      since: 3,
      action: ({ kind }) => ACTIONS[kind] ?? 'test',
      resource: 'test_result',
      subject: ({ id }) => id,
    }),
  },
  evolve(state, { data }, meta) {
    const tested = data as ProviderTested
    if (state.table('tests').get(tested.id) !== undefined) return []
    if (state.table('providers').get(tested.provider_id) === undefined) return []
    const earlier = testsOf(state, tested.provider_id)
    const number = (earlier[0]?.number ?? 0) + 1
    const outdated = outdatedBy(tested, earlier).flatMap((row) => rows.removed(row.id, row))
    return [...outdated, ...rows.created(tested.id, { ...tested, number }, meta)]
  },
}

const isProbe = (tested: ProviderTested): boolean => shownKind(tested) === PROBE

/** The tests that a new one replaces; `earlier` has the newest first. */
const outdatedBy = (tested: ProviderTested, earlier: readonly ProviderTestRow[]): readonly ProviderTestRow[] => {
  const probes = isProbe(tested) ? earlier.filter(isProbe).slice(MOST_TESTED_PROBES - 1) : []
  const others = earlier.filter((row) => !probes.includes(row))
  return [...probes, ...others.slice(MOST_TESTS - 1)]
}

/** Records the results; refuses when the provider was deleted meanwhile. */
export const decideProviderTest = (state: ControlReader, tested: ProviderTested): EventRecord[] => {
  if (state.table('providers').get(tested.provider_id) === undefined)
    throw new Rejection('not_found', `no provider has the id "${tested.provider_id}"`)
  return [{ type: 'provider.tested', data: tested }]
}

/** The findings about one model. */
export interface DetectedModel {
  readonly model_id: string
  readonly proven: readonly string[]
  readonly disproved: readonly string[]
}

/**
 * Records a detection and writes its findings to the models: proven capabilities are added, disproved ones removed. A
 * list that an operator set stays, and so does the list of a model without findings.
 */
export const decideDetection = (
  state: ControlReader,
  tested: ProviderTested,
  found: readonly DetectedModel[],
): EventRecord[] => {
  const recorded = decideProviderTest(state, tested)
  const written = found.flatMap(({ model_id: id, proven, disproved }) => {
    const row = state.table('models').get(id)
    if (row === undefined || row.capability_source === 'operator' || proven.length + disproved.length === 0) return []
    const retained = row.capabilities.filter((name) => !disproved.includes(name))
    const supported = CAPABILITIES.filter((name) => proven.includes(name) || retained.includes(name))
    const others = retained.filter((name) => !(CAPABILITIES as readonly string[]).includes(name))
    const capabilities = [...supported, ...others]
    return decideModel(state, { do: 'change', id, managed_by: 'api', capabilities, capability_source: 'detected' })
  })
  // First the record: a repeat of the request returns it.
  return [...recorded, ...written]
}
