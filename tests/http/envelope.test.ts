// The error envelope: status, type and headers of each failure.
import { expect, test } from 'bun:test'
import { Rejection } from '../../src/domain/kernel/rejection.ts'
import { errorResponse } from '../../src/http/envelope.ts'
import { CommitFailure } from '../../src/state/port.ts'
import { ERRORS, type ErrorCode, GatewayError } from '../../src/wire/errors.ts'

const context = { requestId: 'r1', traceId: 't1' }
const answer = async (error: unknown) => {
  const response = errorResponse(error, context)
  const body = (await response.json()) as { error: Record<string, unknown>; gateway: Record<string, unknown> }
  return { status: response.status, headers: response.headers, ...body }
}

// docs/behaviour.md: "Errors"
test('every code of the table has its status, type and retry headers', async () => {
  for (const code of Object.keys(ERRORS) as ErrorCode[]) {
    const { status, headers, error } = await answer(new GatewayError(code, 'm'))
    expect(status).toBe(ERRORS[code].status)
    expect(error).toEqual({ message: 'm', type: ERRORS[code].type, param: null, code, details: null })
    expect(headers.get('x-gateway-retryable')).toBe(String(ERRORS[code].retryable))
  }
})

test('rejections of the domain become 400, 409, 404 and 403', async () => {
  expect(await answer(new Rejection('invalid', 'm', 'name'))).toMatchObject({
    status: 400,
    error: { code: 'invalid_request', param: 'name' },
  })
  expect(await answer(new Rejection('conflict', 'm'))).toMatchObject({
    status: 409,
    error: { code: 'invalid_request', type: 'conflict_error' },
  })
  expect(await answer(new Rejection('not_found', 'm'))).toMatchObject({ status: 404, error: { code: 'not_found' } })
  expect(await answer(new Rejection('forbidden', 'm'))).toMatchObject({
    status: 403,
    error: { code: 'permission_error' },
  })
})

test('a commit without an answer is a retryable 504 that says a repeat is safe', async () => {
  const { status, headers, error } = await answer(new CommitFailure('unknown', 'internal words'))
  expect(status).toBe(504)
  expect(headers.get('x-gateway-retryable')).toBe('true')
  expect(error.code).toBe('timeout')
  expect(error.message).toContain('unknown')
  expect(error.message).toContain('Idempotency-Key')
  expect((await answer(new CommitFailure('unavailable', 'm'))).status).toBe(504)
  expect((await answer(new CommitFailure('too_large', 'm'))).status).toBe(413)
  expect((await answer(new CommitFailure('refused', 'm'))).status).toBe(502)
})

test('anything else is a bare 500', async () => {
  for (const thrown of [
    new Error('password=1'),
    'password=1',
    null,
    undefined,
    { code: 'ENOENT', message: 'password=1' },
  ]) {
    const { status, error } = await answer(thrown)
    expect(status).toBe(500)
    expect(error).toMatchObject({ code: 'internal_error', message: 'the gateway failed unexpectedly' })
  }
})

test('a validation error of the framework shows the path and the rule, never the body', async () => {
  const thrown = {
    code: 'VALIDATION',
    type: 'body',
    message: '{"secret":"s3cret"}',
    valueError: { path: '/a/b', message: 'Expected string' },
  }
  const { status, error } = await answer(thrown)
  expect(status).toBe(400)
  expect(error).toMatchObject({ param: 'a.b', message: 'a.b: Expected string' })
  expect((await answer({ ...thrown, type: 'response' })).status).toBe(500)
})

test('the block says what is known and null for the rest', async () => {
  expect((await answer(new GatewayError('timeout', 'm'))).gateway).toEqual({
    request_id: 'r1',
    provider: null,
    requested_model: null,
    routed_model: null,
    fallback_used: false,
    cache_hit: false,
    latency_ms: 0,
    estimated_cost_usd: null,
  })
})

test('headers of an error: upstream status, Retry-After in whole seconds, and those it brings', async () => {
  const error = new GatewayError('rate_limited', 'm', {
    upstreamStatus: 429,
    retryAfterS: 1.2,
    headers: { 'x-more': '1' },
  })
  const { headers } = await answer(error)
  expect(headers.get('x-gateway-upstream-status')).toBe('429')
  expect(headers.get('retry-after')).toBe('2')
  expect(headers.get('x-more')).toBe('1')
})
