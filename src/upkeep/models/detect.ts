// Detects what models can do by small requests: a few at once, within a bound of time and of money.
import {
  type GatewayCallOutcome,
  type MakeGatewayCall,
  outcomeOrRefusal,
  type Payer,
} from '../../inference/gateway-calls.ts'
import { NEVER_SENT } from '../../inference/request/failure.ts'
import { mapConcurrently } from '../../lib/event-loop/map-concurrently.ts'
import { DialFailure } from '../../lib/http-client/http-client.ts'
import { sumNanoUsd } from '../../lib/money.ts'
import { ALL_CAPABILITIES, type Capability } from '../../providers/port.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import {
  type Judgement,
  judgeFailure,
  judgeReply,
  QUESTIONS,
  type Question,
  type Verdict,
} from './capability-questions.ts'

export interface CapabilityVerdict extends Judgement {
  readonly capability: Capability
  readonly latencyMs: number
}

export interface ModelDetection {
  readonly entry: CatalogueEntry
  /** False: no request was sent to it. */
  readonly attempted: boolean
  /** In the order of the questions. */
  readonly verdicts: readonly CapabilityVerdict[]
  readonly latencyMs: number
  /** Null: one of the questions has no price. */
  readonly costNanoUsd: number | null
}

/** Models at once, and questions to one of them at once. */
const MODELS_AT_ONCE = 2
const QUESTIONS_AT_ONCE = 3
const QUESTION_MS = 20_000
const TOTAL_MS = 120_000
/** 0.25 USD: once so much has been spent, no further question is sent. */
const MOST_NANO_USD = 250_000_000

export interface DetectDeps {
  readonly ask: MakeGatewayCall
  /** The key and tenant whose budgets pay for the questions. */
  readonly payer: Payer
  /** The capabilities that a kind claims. */
  claims(kind: string): readonly Capability[]
}

/** What all questions of one detection share. */
interface Run extends DetectDeps {
  readonly signal: AbortSignal
  readonly untilMs: number
  spentNanoUsd: number
  /** Why no further question is sent to this provider. */
  ended: string | null
}

/**
 * Sends the questions to every model. Never throws for what the provider does, nor for what the payer's budgets do not
 * allow: such a question is skipped.
 */
export const detectCapabilities = (
  entries: readonly CatalogueEntry[],
  { ask, payer, claims }: DetectDeps,
  signal: AbortSignal,
): Promise<ModelDetection[]> => {
  const run: Run = { ask, payer, claims, signal, untilMs: performance.now() + TOTAL_MS, spentNanoUsd: 0, ended: null }
  return mapConcurrently(entries, MODELS_AT_ONCE, (entry) => detectModel(entry, run))
}

const detectModel = async (entry: CatalogueEntry, run: Run): Promise<ModelDetection> => {
  const startedMs = performance.now()
  const modelRun: ModelRun = { run, entry, attempted: false, costNanoUsd: 0 }
  const [first, ...others] = QUESTIONS
  const { error, ...chat } = await putQuestion(first!, modelRun)
  if (error !== null && concernsAll(error)) run.ended = `the provider fails for every model (${error.code})`
  const rest =
    chat.verdict === 'proven'
      ? (await mapConcurrently(others, QUESTIONS_AT_ONCE, (question) => putQuestion(question, modelRun))).map(
          ({ error: _, ...one }) => one,
        )
      : others.map(({ capability }) => skipped(capability, reasonToStop(run) ?? reasonOf(chat)))
  return {
    entry,
    attempted: modelRun.attempted,
    verdicts: [chat, ...rest],
    latencyMs: Math.max(0, Math.round(performance.now() - startedMs)),
    costNanoUsd: modelRun.costNanoUsd,
  }
}

/** The questions to one model, and what they have cost so far. */
interface ModelRun {
  readonly run: Run
  readonly entry: CatalogueEntry
  attempted: boolean
  costNanoUsd: number | null
}

const putQuestion = async (
  question: Question,
  modelRun: ModelRun,
): Promise<CapabilityVerdict & { readonly error: GatewayError | null }> => {
  const { run, entry } = modelRun
  const { capability, body, gentler } = question
  const why = reasonToStop(run)
  if (why !== null) return { ...skipped(capability, why), error: null }
  let outcome = await call(body, modelRun)
  if (!(outcome instanceof GatewayError) && outcome.error?.code === 'invalid_request' && gentler !== undefined)
    outcome = await call(gentler, modelRun)
  if (outcome instanceof GatewayError) return { ...withoutOutcome(capability, outcome, modelRun), error: null }
  const { answer, error, shaping, latencyMs } = outcome
  const judgement =
    answer === null
      ? judgeFailure(question, error!)
      : judgeReply(question, { ...answer, shaping }, run.claims(entry.kind))
  return { capability, ...judgement, latencyMs, error }
}

/**
 * The result of a question that was not sent, or whose outcome could not be recorded: that one may have cost something,
 * and no further one is sent.
 */
const withoutOutcome = (
  capability: Capability,
  { code, message }: GatewayError,
  modelRun: ModelRun,
): CapabilityVerdict => {
  if (code !== 'internal_error') return skipped(capability, message)
  modelRun.run.ended = message
  modelRun.attempted = true
  modelRun.costNanoUsd = null
  return { ...skipped(capability, message), verdict: 'indeterminate' }
}

/** Why nothing else is sent to a model that did not answer the plain question. */
const reasonOf = ({ verdict, detail }: Judgement): string =>
  verdict === 'skipped' ? detail : 'the plain question failed'

const call = async (body: Question['body'], modelRun: ModelRun): Promise<GatewayCallOutcome | GatewayError> => {
  const { run, entry } = modelRun
  const timeoutMs = Math.max(1, Math.min(QUESTION_MS, run.untilMs - performance.now()))
  // Everything is sent, whatever capabilities the model has by its row.
  const unrestricted = { ...entry, capabilities: ALL_CAPABILITIES }
  const { ask, payer, signal } = run
  const outcome = await outcomeOrRefusal(ask, {
    entry: unrestricted,
    body,
    purpose: 'detection',
    payer,
    timeoutMs,
    signal,
  })
  if (outcome instanceof GatewayError) return outcome
  modelRun.attempted = true
  const cost = outcome.measured.costNanoUsd
  modelRun.costNanoUsd = cost === null || modelRun.costNanoUsd === null ? null : sumNanoUsd(modelRun.costNanoUsd, cost)
  run.spentNanoUsd += cost ?? 0
  return outcome
}

/** Failures that every other model of the provider would have too. */
const concernsAll = ({ code, cause }: GatewayError): boolean =>
  code === 'authentication_error' ||
  code === 'quota_exceeded' ||
  (cause instanceof DialFailure && NEVER_SENT.includes(cause.kind))

const reasonToStop = ({ ended, signal, untilMs, spentNanoUsd }: Run): string | null => {
  if (ended !== null) return ended
  if (signal.aborted) return 'the detection was ended'
  if (performance.now() >= untilMs) return `the detection took longer than ${TOTAL_MS / 1_000} s`
  return spentNanoUsd >= MOST_NANO_USD ? 'the detection has cost as much as it may' : null
}

const skipped = (capability: Capability, detail: string): CapabilityVerdict => ({
  capability,
  verdict: 'skipped',
  detail,
  latencyMs: 0,
})

/** The capabilities of a verdict. */
export const withVerdict = ({ verdicts }: ModelDetection, verdict: Verdict): Capability[] =>
  verdicts.filter((one) => one.verdict === verdict).map(({ capability }) => capability)
