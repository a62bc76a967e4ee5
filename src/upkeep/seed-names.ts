// What `bootstrap:` calls things: slugs and names where the API has ids.
import type { Bootstrap } from '../domain/bootstrap.ts'
import type { ControlReader } from '../domain/control.ts'
import { Rejection } from '../domain/rejection.ts'
import { isDay } from '../lib/iso-time.ts'

export const DEFAULT_TENANT = 'default'

/** The id of a tenant by its slug; null where none is named. */
export const tenantOf = (state: ControlReader, slug: string | undefined): string | null =>
  slug === undefined ? null : (state.table('tenants').find('slug', slug)[0] ?? slug)

/** The active keys that settings know by this name, whatever they are called since; without any of those, the ones that have it. */
const activeKeys = (state: ControlReader, tenantId: string, name: string): string[] => {
  const active = state
    .table('keys')
    .findRows('tenant', tenantId)
    .filter(({ status }) => status === 'active')
  const seeded = active.filter((row) => row.seeded_name === name)
  return (seeded.length > 0 ? seeded : active.filter((row) => row.name === name)).map(({ id }) => id)
}

/** The keys that entries of `bootstrap.keys` tell by an id, by slug and name (`acme/app`): an export names keys so that a file can tell them apart. */
export type KeyIds = ReadonlyMap<string, string>

export const keyIdsOf = ({ keys = [] }: Bootstrap): KeyIds =>
  new Map(
    keys.flatMap(({ id, name, tenant = DEFAULT_TENANT }) => (id === undefined ? [] : [[`${tenant}/${name}`, id]])),
  )

/** The key of an entry with an id, where there is one; undefined otherwise. */
const identified = (state: ControlReader, ids: KeyIds, tenantId: string | null, text: string): string | undefined => {
  if (ids.size === 0) return undefined
  const slug = tenantId === null ? null : state.table('tenants').get(tenantId)?.slug
  const id = ids.get(slug === null ? text : `${slug}/${text}`)
  const row = id === undefined ? undefined : state.table('keys').get(id)
  return row === undefined || (tenantId !== null && row.tenant_id !== tenantId) ? undefined : row.id
}

/**
 * A key by its id, or by the name of the only active one of that name: of that tenant when one is given, else of the tenant whose slug stands
 * before a slash (`acme/app`), else of all. What nothing has is answered as it came. Throws Rejection where it is not clear which is meant.
 */
export const keyOf = (state: ControlReader, ids: KeyIds, tenantId: string | null, text: string): string => {
  if (state.table('keys').get(text) !== undefined) return text
  const known = identified(state, ids, tenantId, text)
  if (known !== undefined) return known
  if (tenantId === null) {
    const slash = text.indexOf('/')
    const [owner] = slash < 1 ? [] : state.table('tenants').find('slug', text.slice(0, slash))
    const owned = owner === undefined ? [] : activeKeys(state, owner, text.slice(slash + 1))
    if (owned.length > 0) return theOnly(owned, text)
  }
  const owners = tenantId === null ? [...state.table('tenants').rows()].map(([id]) => id) : [tenantId]
  const named = owners.flatMap((owner) => activeKeys(state, owner, text))
  return named.length === 0 ? text : theOnly(named, text)
}

const theOnly = (ids: readonly string[], text: string): string => {
  if (ids.length === 1) return ids[0]!
  throw new Rejection('invalid', `${ids.length} active keys are named "${text}": name the one that is meant by its id`)
}

/** An RFC 3339 time as rows have it. Throws Rejection for a day that does not exist. */
export const momentOf = (text: string): string => {
  const ms = Date.parse(text)
  if (Number.isNaN(ms) || !isDay(text.slice(0, 10)))
    throw new Rejection('invalid', `"${text}" is not a time`, 'expires_at')
  return new Date(ms).toISOString()
}
