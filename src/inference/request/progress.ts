// How far a request has come, in its type: what one station has set, the next one takes. All of these are the one
// `Exchange` object of the request. Types only: each station sets its own members.
import type { Appended } from '../../log/spool/spool.ts'
import type { ProviderKind } from '../../providers/port.ts'
import type { HealthCall } from '../../state/health/call.ts'
import type { CatalogueEntry } from '../../state/port.ts'
import type { Intent } from '../intent/intent.ts'
import type { Plan } from '../plan/plan.ts'
import type { Exchange } from './exchange.ts'

/** The plan is made: the candidates are chosen. Made by `planned` in `plan/route.ts`. */
export type Planned = Exchange & {
  readonly intent: Intent
  readonly plan: Plan
  readonly revision: string
  readonly factsText: string
}
/** The admission is in the spool. Made by `admitted` in `records/admit.ts`. */
export type Admitted = Planned & { readonly admission: Appended }
/**
 * The call of a candidate has begun: `entry`, of `kind`, with its `call` in the book of health. A later attempt
 * replaces all three. Made by `called` in `attempt/attempt.ts`.
 */
export type Called = Admitted & {
  readonly entry: CatalogueEntry
  readonly kind: ProviderKind
  readonly call: HealthCall
}
