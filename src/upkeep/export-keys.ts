// Keys as entries of `bootstrap:`. The API may give several one name; in a file each has a name of its own, and what is about a key says that name.
import type { ApiKeyRow } from '../domain/api-key.ts'
import type { BootstrapKey } from '../domain/bootstrap.ts'
import type { ControlReader } from '../domain/control.ts'
import { DEFAULT_TENANT, hasScopes, usualKey } from './seed-keys.ts'

/** Active keys by id: the name that each has in the file. */
export type KeyNames = ReadonlyMap<string, string>

const MAX_NAME_LENGTH = 256

/** A key whose name no other has keeps it; of several the seeded one does, else the oldest. What is named as a key of the environment and has other scopes gets another name. */
export const keyNames = (state: ControlReader): KeyNames => {
  const active = [...state.table('keys').rows()].map(([, row]) => row).filter(({ status }) => status === 'active')
  const names = new Map<string, string>()
  for (const ofTenant of Map.groupBy(active, ({ tenant_id }) => tenant_id).values()) {
    const taken = new Set(ofTenant.map(({ name }) => name))
    for (const [name, rows] of Map.groupBy(ofTenant, (row) => row.name)) {
      const usual = usualKey(slugOf(state, rows[0]!.tenant_id), name)
      const free = freeNames(name, taken)
      const ranked = rows.toSorted(bySeniority)
      const kept = ranked.find(({ scopes }) => usual === undefined || hasScopes(usual, scopes))
      for (const row of ranked) names.set(row.id, row === kept ? name : free.next().value)
    }
  }
  return names
}

const slugOf = (state: ControlReader, tenantId: string): string | undefined =>
  state.table('tenants').get(tenantId)?.slug

const isSeeded = (row: ApiKeyRow): boolean => row.managed_by === 'bootstrap' || row.seeded_name === row.name

/** Ids sort by time. */
const bySeniority = (a: ApiKeyRow, b: ApiKeyRow): number =>
  Number(isSeeded(b)) - Number(isSeeded(a)) || (a.id < b.id ? -1 : 1)

/** Names after this one that no key of the tenant has, without end. */
function* freeNames(name: string, taken: Set<string>): Generator<string, never> {
  for (let n = 2; ; n++) {
    const end = `-${n}`
    const free = `${name.slice(0, MAX_NAME_LENGTH - end.length).toWellFormed()}${end}`
    if (taken.has(free)) continue
    taken.add(free)
    yield free
  }
}

/** What stands for a key in an entry of this tenant (null: of none), or null for one that is not in the file or not of that tenant. */
export const nameOfKey = (
  state: ControlReader,
  names: KeyNames,
  tenantId: string | null,
  id: string,
): string | null => {
  const row = state.table('keys').get(id)
  const name = names.get(id)
  if (row === undefined || name === undefined || (tenantId !== null && row.tenant_id !== tenantId)) return null
  return tenantId === null ? `${slugOf(state, row.tenant_id)}/${name}` : name
}

/** `entries`: those of the section. */
export const keyNotes = (entries: readonly object[]): readonly string[] => {
  if (entries.length === 0) return []
  const usual = (entries as readonly BootstrapKey[]).filter(({ tenant, name }) => usualKey(tenant, name) !== undefined)
  return [
    'Only names: a key without key_env (the name of a variable that holds its text) gets a new text, which the first start prints once.',
    ...usual.map(
      ({ name }) =>
        `${name} is the key of ${usualKey(DEFAULT_TENANT, name)!.variable}: where that is set, it is its text.`,
    ),
  ]
}
