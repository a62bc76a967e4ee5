// How tests set up, sign in and come back with the cookie.
import { expect } from 'bun:test'
import type { CallOptions, Gateway } from './gateway.ts'

export const PASSWORD = 'correct horse battery'
export const HOUR_MS = 3_600_000
export const ADA = { username: 'Ada', password: PASSWORD }

export const tokenOf = (headers: Headers): string =>
  /^gateway_session=([^;]*)/.exec(headers.get('set-cookie') ?? '')![1]!

export const setUp = async (gateway: Gateway) => {
  const answer = await gateway.call('POST', '/auth/setup', { key: null, body: { ...ADA, confirm: PASSWORD } })
  expect([answer.status, answer.headers.get('x-gateway-applied-by')]).toEqual([201, '1/1'])
  return { ...answer, cookie: `gateway_session=${tokenOf(answer.headers)}`, id: answer.body.operator_id as string }
}
export const logIn = (gateway: Gateway, fields: Record<string, unknown> = {}, options: CallOptions = {}) =>
  gateway.call('POST', '/auth/login', { key: null, body: { ...ADA, ...fields }, ...options })
/** As the page of the console sends it. */
export const withCookie = (cookie: string, headers: Record<string, string> = {}): CallOptions => ({
  key: null,
  headers: { cookie, origin: 'http://gateway.test', ...headers },
})
