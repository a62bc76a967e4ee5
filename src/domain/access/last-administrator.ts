// The rule that an administrator remains: without an operator and without a key that has `*`, no caller could create
// another one.

import type { ControlReader } from '../control.ts'
import type { EventRecord } from '../kernel/decision.ts'
import { Rejection } from '../kernel/rejection.ts'
import { type ApiKeyRow, hasExpired } from './api-key.ts'

const works = (key: ApiKeyRow, nowMs: number): boolean =>
  key.status === 'active' && key.scopes.includes('*') && !hasExpired(key, nowMs)

/** Whether a changed key no longer counts as an administrator: it loses `*`, or gets an expiry, or an earlier one. */
const losesAdministration = ({ expires_at: end }: ApiKeyRow, { scopes, expires_at }: EventRecord['data']): boolean =>
  (Array.isArray(scopes) && !scopes.includes('*')) ||
  (typeof expires_at === 'string' && (end === null || Date.parse(expires_at) < Date.parse(end)))

/** The keys with `*` that stop working by an event, or stop earlier. */
const lostBy = (state: ControlReader, { type, data }: EventRecord, nowMs: number): readonly string[] => {
  const keys = state.table('keys')
  const key = type.startsWith('api_key.') ? keys.get(String(data.id)) : undefined
  if (key !== undefined && works(key, nowMs)) {
    if (type === 'api_key.revoked' || (type === 'api_key.changed' && losesAdministration(key, data))) return [key.id]
  }
  if (type !== 'tenant.deleted') return []
  return keys
    .findRows('every_scope', '')
    .flatMap((row) => (row.tenant_id === data.id && works(row, nowMs) ? [row.id] : []))
}

/** Throws 409 when no caller with every scope would be left: no operator, and no usable key with `*`. */
export const requireAdministrator = (state: ControlReader, events: readonly EventRecord[], nowMs: number): void => {
  const gone = events.filter(({ type }) => type === 'operator.deleted').length
  const lost = new Set(events.flatMap((event) => lostBy(state, event, nowMs)))
  if ((gone === 0 && lost.size === 0) || state.table('operators').size > gone) return
  if (
    state
      .table('keys')
      .findRows('every_scope', '')
      .some((key) => !lost.has(key.id) && works(key, nowMs))
  )
    return
  throw new Rejection(
    'conflict',
    'this would lock everybody out: no other key with the scope "*" works, and there is no other operator; first ' +
      'issue such a key (POST /admin/v1/keys) or make an operator (POST /admin/v1/operators)',
  )
}
