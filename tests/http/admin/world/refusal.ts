// What a refusal of the administration is, whole: status, envelope and headers. Counts the cells that were looked at.
import { expect } from 'bun:test'
import type { Answer } from './gateway.ts'

let looked = 0
/** Called at the top of a test file: answers how many cells were looked at since. */
export const counting = (): (() => number) => {
  const before = looked
  return () => looked - before
}
export const count = (): void => {
  looked += 1
}

const TYPES: Readonly<Record<string, string>> = {
  authentication_error: 'authentication_error',
  permission_error: 'permission_error',
  not_found: 'not_found_error',
  not_implemented: 'not_implemented_error',
  invalid_request: 'invalid_request_error',
}
export type Refusal = readonly [status: number, code: keyof typeof TYPES, param?: string]
export const NOBODY: Refusal = [401, 'authentication_error']
export const FORBIDDEN: Refusal = [403, 'permission_error']
export const ABSENT: Refusal = [404, 'not_found']

/** The cell is a refusal, and its answer is the whole envelope with its headers and nothing else. */
export const expectRefusal = (cell: string, { status, headers, body }: Answer, [wanted, code, param]: Refusal) => {
  count()
  const type = wanted === 409 ? 'conflict_error' : TYPES[code]
  const error = { message: expect.any(String), type, param: param ?? null, code, details: null }
  const unknown = { provider: null, requested_model: null, routed_model: null, estimated_cost_usd: null }
  const gateway = {
    ...unknown,
    request_id: headers.get('x-request-id'),
    fallback_used: false,
    cache_hit: false,
    latency_ms: expect.any(Number),
  }
  const said = ['content-type', 'x-gateway-retryable', 'x-should-retry', 'www-authenticate'].map((name) =>
    headers.get(name),
  )
  expect([cell, status, body]).toEqual([cell, wanted, { error, gateway } as never])
  expect([cell, said]).toEqual([cell, ['application/json', 'false', 'false', wanted === 401 ? 'Bearer' : null]])
  expect([cell, headers.get('x-request-id') !== null && headers.get('x-trace-id') !== null]).toEqual([cell, true])
}
