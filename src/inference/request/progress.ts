// How far a request has come, in its type: what one station has set, the next one takes. All of these are the one
// `Exchange` object of the request.
import type { Appended } from '../../log/spool/spool.ts'
import type { ProviderKind } from '../../providers/port.ts'
import type { HealthCall } from '../../state/health/call.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import type { Intent } from '../intent/intent.ts'
import type { Plan } from '../plan/plan.ts'
import { factsText } from '../records/admit.ts'
import type { FactsText } from '../records/record-text.ts'
import type { Exchange } from './exchange.ts'

/** Its candidates are chosen. */
export type Planned = Exchange & { readonly intent: Intent; readonly plan: Plan; readonly factsText: FactsText }
/** Its admission is in the spool. */
export type Admitted = Planned & { readonly admission: Appended }
/** A candidate was called: `entry`, of `kind`. A later attempt replaces all three. */
export type Called = Admitted & {
  readonly entry: CatalogueEntry
  readonly kind: ProviderKind
  readonly call: HealthCall
}
/** The candidate that was called last has answered, or its stream has begun. */
export type Answered = Called

/**
 * Notes the plan, made on a `revision`. `user`: keyed digest of the end user. From now on the policy limits the time.
 */
export const planned = (
  exchange: Exchange,
  intent: Intent,
  plan: Plan,
  revision: string,
  user: string | null,
): Planned => {
  exchange.intent = intent
  exchange.plan = plan
  exchange.deadlineMs = exchange.identity.startedMs + plan.policy.totalMs
  exchange.factsText = factsText(exchange, revision, user)
  exchange.plannedMs = exchange.latencyMs()
  return exchange as Planned
}

/** Notes the candidate and clears what the attempt before left. The call itself has begun in the book of health. */
export const called = (exchange: Admitted, entry: CatalogueEntry, kind: ProviderKind): Called => {
  exchange.entry = entry
  exchange.kind = kind
  exchange.reservedFor = null
  exchange.attemptStartedMs = performance.now()
  exchange.mayBill = false
  exchange.usage = null
  exchange.answerBytes = 0
  return exchange as Called
}
