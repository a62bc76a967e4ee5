// Which changes the other instances should apply at once: those that take something away, and credentials.
import type { ApiKeyRow } from '../../domain/access/api-key.ts'
import type { RowChange } from '../../domain/kernel/tables.ts'

/** A change that removes a row or narrows what it allows: announced at once, not with the next of its kind. */
export const isUrgent = (change: RowChange): boolean => {
  if (isAwaited(change)) return true
  const { before, after } = change
  if (before === null) return false
  return after === null || standing(before) !== standing(after)
}

/**
 * A key that was issued, deleted, revoked, rotated or may do less, a session or an operator that was made or ended, a
 * kill, an override set or lifted: the response waits until every live instance has applied it, since the next request
 * may reach another one. Kills are rows of `overrides`.
 */
export const isAwaited = ({ table, before, after }: RowChange): boolean => {
  if (table === 'overrides' || table === 'operators') return true
  if (table === 'sessions') return before === null || after === null // not each use of one
  if (table !== 'keys') return false
  if (before === null || after === null) return true
  const [was, is] = [before as ApiKeyRow, after as ApiKeyRow]
  return was.digest !== is.digest || standing(was) !== standing(is) || isNarrowed(was, is)
}

/**
 * Whether a key ends earlier, lacks a scope that it had, or has a lower limit or another policy: which requests another
 * policy stops cannot be computed here.
 */
const isNarrowed = (was: ApiKeyRow, is: ApiKeyRow): boolean =>
  endMs(is) < endMs(was) ||
  was.scopes.some((scope) => !is.scopes.includes(scope)) ||
  was.routing_policy_id !== is.routing_policy_id ||
  LIMITS.some((name) => limitOf(is, name) < limitOf(was, name))

const LIMITS = ['rpm', 'tpm', 'max_parallel'] as const

const limitOf = ({ rate_limits }: ApiKeyRow, name: (typeof LIMITS)[number]): number => rate_limits?.[name] ?? Infinity

const endMs = ({ expires_at }: ApiKeyRow): number => (expires_at === null ? Infinity : Date.parse(expires_at))

const standing = (row: unknown): string => {
  const { status, enabled } = row as { status?: string; enabled?: boolean }
  return `${status ?? ''}/${enabled ?? ''}`
}
