// How a request ended.
import type { Outcome } from '../../domain/events/request.ts'
import type { GatewayError } from '../../wire/errors.ts'

export interface Ending {
  readonly outcome: Outcome
  /** The status that the client got, or would have got if connected. */
  readonly status: number
  readonly error: GatewayError | null
}

export const SUCCESS: Ending = { outcome: 'success', status: 200, error: null }
