// Lists: `{<plural>: [...], total, limit, offset}`, and the query that pages and narrows them.
import type { ControlReader } from '../../domain/control.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import { t } from '../../lib/schema/schema.ts'
import { GatewayError } from '../../wire/errors.ts'
import { type Principal, tenantFor } from '../auth.ts'

export const DEFAULT_LIMIT = 50
export const MAX_LIMIT = 1_000

/** Parameters of every list, as they stand in the query. */
export const Paging = {
  limit: t.Optional(t.String()),
  offset: t.Optional(t.String()),
  format: t.Optional(t.String()),
}

/** A whole number of the query, or the default. Throws 400 naming the parameter. */
export const wholeOf = (text: string | undefined, name: string, least: number, otherwise: number): number => {
  if (text === undefined) return otherwise
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (value > Number.MAX_SAFE_INTEGER)
    throw new GatewayError('invalid_request', `"${name}" may be at most ${Number.MAX_SAFE_INTEGER}`, { param: name })
  if (value >= least) return value
  throw new GatewayError('invalid_request', `"${name}" must be a whole number of at least ${least}`, { param: name })
}

/** A `limit`; one above the most is clamped, however many digits it has. */
export const limitOf = (text: string | undefined, otherwise: number, most: number): number =>
  text !== undefined && /^0*[1-9]\d{15,}$/.test(text) ? most : Math.min(wholeOf(text, 'limit', 1, otherwise), most)

/** The page of a query. */
export const pageOf = (
  query: { limit?: string; offset?: string },
  defaultLimit = DEFAULT_LIMIT,
): { limit: number; offset: number } => ({
  limit: limitOf(query.limit, defaultLimit, MAX_LIMIT),
  offset: wholeOf(query.offset, 'offset', 0, 0),
})

/**
 * The tenant whose configuration is listed; undefined: all that the caller sees. A missing tenant, and another's, is
 * 404.
 */
export const tenantOfQuery = (
  state: ControlReader,
  principal: Principal,
  tenantId: string | undefined,
): string | undefined => {
  if (tenantId === undefined) return undefined
  const meant = tenantFor(principal, tenantId)
  if (state.table('tenants').get(meant) === undefined)
    throw new Rejection('not_found', `no tenant has the id "${meant}"`, 'tenant_id')
  return meant
}

/** The id of the provider to which a list of the registry is narrowed, by its name or id. A missing one is 404. */
export const providerOfQuery = (state: ControlReader, named: string | undefined): string | undefined => {
  if (named === undefined) return undefined
  const providers = state.table('providers')
  const [id = named] = providers.find('name', named.toLowerCase())
  if (providers.get(id) === undefined)
    throw new Rejection('not_found', `no provider has the name or id "${named}"`, 'provider')
  return id
}

/** One page of rows in memory, in their order: oldest first, unless sorted before. */
export const listed = <Row>(
  plural: string,
  rows: readonly Row[],
  query: { limit?: string; offset?: string },
  view: (row: Row) => unknown,
  defaultLimit = DEFAULT_LIMIT,
): Record<string, unknown> => {
  const { limit, offset } = pageOf(query, defaultLimit)
  return { [plural]: rows.slice(offset, offset + limit).map(view), total: rows.length, limit, offset }
}
