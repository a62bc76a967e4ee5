// The members that both records of a request share, made once, and the ends of its records.
import type { RequestAdmitted, RequestSettled } from '../../domain/events/request.ts'
import { digitsOf } from '../../domain/events/request-reading.ts'
import type { InferenceDeps } from '../request/deps.ts'
import type { Exchange } from '../request/exchange.ts'

/** Members of `request.admitted` and of `request.settled` that say the same. */
export type SharedFacts = Pick<
  RequestAdmitted & RequestSettled,
  | 'id'
  | 'request_id'
  | 'trace_id'
  | 'key_id'
  | 'requested_model'
  | 'endpoint'
  | 'policy_id'
  | 'stream'
  | 'user'
  | 'task'
  | 'purpose'
>

/**
 * The beginning of both records as JSON text, up to the comma behind the facts. `user`: keyed digest of the end user.
 */
export const factsText = (exchange: Exchange, user: string | null): string => {
  const { identity, key, intent, plan, requestedModel, purpose } = exchange
  const { id, requestId, traceId } = identity
  const facts: SharedFacts = { id }
  if (requestId !== id) facts.request_id = requestId
  if (traceId !== digitsOf(id)) facts.trace_id = traceId
  if (key !== null) facts.key_id = key.id
  if (requestedModel !== null) facts.requested_model = requestedModel
  if (plan !== null) {
    const { id: policyId, scope } = plan.policy
    if (scope !== null) facts.endpoint = scope.slug
    if (policyId !== null) facts.policy_id = policyId
  }
  if (intent?.stream) facts.stream = true
  if (user !== null) facts.user = user
  if (intent !== null && intent.task !== 'chat') facts.task = intent.task
  if (purpose !== null) facts.purpose = purpose
  return `${JSON.stringify(facts).slice(0, -1)},`
}

/** The members of a record that follow its facts. */
export const memberText = (members: object): string => JSON.stringify(members).slice(1)

/** The partition key: tenant and instance, so that the records of one request stay in order. */
export const subjectOf = ({ key }: Pick<Exchange, 'key'>, { spool }: Pick<InferenceDeps, 'spool'>): string =>
  `${key?.tenantId ?? ''}/${spool.instance}`

/** Instance and epoch of the records of a spool. */
export const writerOf = ({ instance, epoch }: InferenceDeps['spool']): string => `${instance}.${epoch}`
