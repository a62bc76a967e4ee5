// The revision headers of a write, and `X-Gateway-Min-Revision`: a caller that wrote on another instance waits here
// until this instance has folded the write.
import type { HeaderReader } from '../lib/http-server/http-server.ts'
import type { LiveState } from '../state/port.ts'
import type { AppliedBy } from '../upkeep/instances/instances.ts'
import { GatewayError } from '../wire/errors.ts'

export const MIN_REVISION = 'x-gateway-min-revision'
const WAIT_MS = 2_000

/**
 * Returns at once without the header, or when the decision is folded. Waits up to 2 s, then throws 504 (retryable).
 * Throws 400 for an invalid revision.
 */
export const reachMinRevision = async (headers: HeaderReader, live: Pick<LiveState, 'reached'>): Promise<void> => {
  const revision = headers.get(MIN_REVISION)
  if (revision === null) return
  if (!/^[0-9a-f]{64}$/.test(revision)) {
    throw new GatewayError('invalid_request', 'X-Gateway-Min-Revision must be a revision: 64 hexadecimal digits', {
      param: 'X-Gateway-Min-Revision',
    })
  }
  if (await live.reached(revision, WAIT_MS)) return
  throw new GatewayError('timeout', `this instance has not seen the revision within ${WAIT_MS / 1000} s; try again`, {
    param: 'X-Gateway-Min-Revision',
    retryAfterS: 1,
  })
}

export interface AppliedDeps {
  /** How many of the live instances have folded a decision. */
  appliedBy(revision: string): Promise<AppliedBy>
}

/**
 * Headers of every write: the decision, and how many of the live instances have applied it (`<applied>/<instances>`).
 * `known`: the counts of a write that is no decision.
 */
export const revisionHeaders = async (
  revision: string,
  deps: AppliedDeps,
  known?: AppliedBy,
): Promise<Record<string, string>> => {
  const { applied, instances } = known ?? (await deps.appliedBy(revision))
  return { 'x-gateway-revision': revision, 'x-gateway-applied-by': `${applied}/${instances}` }
}
