// Keys as entries of `bootstrap:`. The API may give several keys one name; in a file each has a name of its own, and
// entries about a key use that name.
import type { ApiKeyRow } from '../../domain/access/api-key.ts'
import type { BootstrapKey } from '../../domain/bootstrap.ts'
import type { ControlReader } from '../../domain/control.ts'
import { hasScopes, usualKey } from '../bootstrap/keys.ts'
import { DEFAULT_TENANT } from '../bootstrap/names.ts'

/**
 * Active keys by id: the name that each has in the file, and whether settings of this installation mean another key by
 * it, or none.
 */
export type KeyNames = ReadonlyMap<string, { readonly name: string; readonly isUnclear: boolean }>

const MAX_NAME_LENGTH = 256

/**
 * A key with a unique name keeps it; of several with the same name the seeded one keeps it, else the oldest. A key that
 * is named as a key of the environment and has other scopes gets another name.
 */
export const keyNames = (state: ControlReader): KeyNames => {
  const active = [...state.table('keys').rows()].map(([, row]) => row).filter(({ status }) => status === 'active')
  const names = new Map<string, { name: string; isUnclear: boolean }>()
  for (const ofTenant of Map.groupBy(active, ({ tenant_id }) => tenant_id).values()) {
    const isMeant = meantBy(ofTenant)
    const taken = new Set(ofTenant.map(({ name }) => name))
    for (const [name, rows] of Map.groupBy(ofTenant, (row) => row.name)) {
      const usual = usualKey(slugOf(state, rows[0]!.tenant_id), name)
      const free = freeNames(name, taken)
      const ranked = rows.toSorted(bySeniority)
      const kept = ranked.find(({ scopes }) => usual === undefined || hasScopes(usual, scopes))
      for (const row of ranked) {
        const inFile = row === kept ? name : free.next().value
        names.set(row.id, { name: inFile, isUnclear: !isMeant(row, inFile) })
      }
    }
  }
  return names
}

/** Whether the seeder means this key of a tenant by a name: as `keyOf` of `upkeep/bootstrap/names.ts` finds it. */
const meantBy = (ofTenant: readonly ApiKeyRow[]): ((row: ApiKeyRow, name: string) => boolean) => {
  const seeded = Map.groupBy(ofTenant, ({ seeded_name }) => seeded_name)
  const named = Map.groupBy(ofTenant, ({ name }) => name)
  return (row, name) => {
    const meant = seeded.get(name) ?? named.get(name) ?? []
    return meant.length === 1 && meant[0] === row
  }
}

const slugOf = (state: ControlReader, tenantId: string): string | undefined =>
  state.table('tenants').get(tenantId)?.slug

const isSeeded = (row: ApiKeyRow): boolean => row.managed_by === 'bootstrap' || row.seeded_name === row.name

/** Ids sort by time. */
const bySeniority = (a: ApiKeyRow, b: ApiKeyRow): number =>
  Number(isSeeded(b)) - Number(isSeeded(a)) || (a.id < b.id ? -1 : 1)

/** Names after this one that no key of the tenant has, endless. */
function* freeNames(name: string, taken: Set<string>): Generator<string, never> {
  for (let n = 2; ; n++) {
    const end = `-${n}`
    const free = `${name.slice(0, MAX_NAME_LENGTH - end.length).toWellFormed()}${end}`
    if (taken.has(free)) continue
    taken.add(free)
    yield free
  }
}

/**
 * The name of a key in an entry of this tenant (null: of none), or null for a key that is not in the file or not of
 * that tenant.
 */
export const nameOfKey = (
  state: ControlReader,
  names: KeyNames,
  tenantId: string | null,
  id: string,
): string | null => {
  const row = state.table('keys').get(id)
  const name = names.get(id)?.name
  if (row === undefined || name === undefined || (tenantId !== null && row.tenant_id !== tenantId)) return null
  return tenantId === null ? `${slugOf(state, row.tenant_id)}/${name}` : name
}

/** `entries`: those of the section. */
export const keyNotes = (entries: readonly object[]): readonly string[] => {
  if (entries.length === 0) return []
  const usual = (entries as readonly BootstrapKey[]).filter(({ tenant, name }) => usualKey(tenant, name) !== undefined)
  return [
    'Only names: a key without key_env (the name of a variable that holds its text) gets a new text, which the ' +
      'first start prints once.',
    ...((entries as readonly BootstrapKey[]).some(({ id }) => id !== undefined)
      ? ['A key with an id is that one in the installation that has it; elsewhere one is made under the name.']
      : []),
    ...usual.map(
      ({ name }) =>
        `${name} is the key of ${usualKey(DEFAULT_TENANT, name)!.variable}: where that is set, it is its text.`,
    ),
  ]
}
