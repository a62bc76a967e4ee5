// `X-Gateway-Min-Revision`: a caller that wrote on another instance waits here until this one has folded it.
import type { HeaderReader } from '../lib/inbound.ts'
import type { LiveState } from '../state/port.ts'
import { GatewayError } from '../wire/errors.ts'

export const MIN_REVISION = 'x-gateway-min-revision'
const WAIT_MS = 2_000

/** Returns at once without the header or when the decision is folded; waits up to 2 s; then 504, retryable. Throws 400 for what is no revision. */
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
