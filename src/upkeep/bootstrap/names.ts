// The names of `bootstrap:`: slugs and names where the API has ids.
import type { ApiKeyRow } from '../../domain/access/api-key.ts'
import type { Bootstrap, BootstrapModel } from '../../domain/bootstrap.ts'
import type { ControlReader } from '../../domain/control.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import { isDay } from '../../lib/time/iso-time.ts'

export const DEFAULT_TENANT = 'default'

/** The id of a tenant by its slug; null where none is named. */
export const tenantOf = (state: ControlReader, slug: string | undefined): string | null =>
  slug === undefined ? null : (state.table('tenants').find('slug', slug)[0] ?? slug)

/** Every entry about a model, those below a provider first. */
export const modelEntries = ({ providers = [], models = [] }: Bootstrap): readonly BootstrapModel[] => [
  ...providers.flatMap(({ name, models: own = [] }) => own.map((model) => ({ provider: name, ...model }))),
  ...models,
]

interface Called {
  readonly seeded: Map<string, string[]>
  readonly named: Map<string, string[]>
}

/**
 * Finds keys by their names. Reads the keys of a tenant once for each state that is passed: steps that are decided one
 * on top of the other make no key under a name that another entry looks for.
 */
export class KeyFinder {
  #state: ControlReader | null = null
  readonly #tenants = new Map<string, Called>()

  /** `names`: those that will be looked up; null: not known before. */
  constructor(readonly names: ReadonlySet<string> | null = null) {}

  /**
   * The keys that the settings made under this name, whatever they are called now, and those that have it now. Ids sort
   * by time.
   */
  find(state: ControlReader, tenantId: string, name: string): Readonly<Record<keyof Called, readonly ApiKeyRow[]>> {
    const { seeded, named } = this.#calledOf(state, tenantId)
    const keys = state.table('keys')
    const rowsOf = (ids: readonly string[] = []) => ids.map((id) => keys.get(id)).filter((row) => row !== undefined)
    return { seeded: rowsOf(seeded.get(name)), named: rowsOf(named.get(name)) }
  }

  #calledOf(state: ControlReader, tenantId: string): Called {
    if (this.#state !== state) this.#tenants.clear()
    this.#state = state
    let called = this.#tenants.get(tenantId)
    if (called === undefined) {
      called = { seeded: new Map(), named: new Map() }
      const keys = state.table('keys')
      for (const id of keys.find('tenant', tenantId).toSorted()) {
        const { name, seeded_name } = keys.get(id)!
        this.#note(called.named, name, id)
        if (seeded_name !== undefined) this.#note(called.seeded, seeded_name, id)
      }
      this.#tenants.set(tenantId, called)
    }
    return called
  }

  #note(ids: Map<string, string[]>, name: string, id: string): void {
    if (this.names !== null && !this.names.has(name)) return
    const known = ids.get(name)
    if (known === undefined) ids.set(name, [id])
    else known.push(id)
  }
}

/** The active keys that settings made under this name; without any of those, the ones that have it. */
const activeKeys = (state: ControlReader, finder: KeyFinder, tenantId: string, name: string): string[] => {
  const { seeded, named } = finder.find(state, tenantId, name)
  const activeOf = (rows: readonly ApiKeyRow[]) => rows.filter(({ status }) => status === 'active').map(({ id }) => id)
  const known = activeOf(seeded)
  return known.length > 0 ? known : activeOf(named)
}

/**
 * The keys that entries of `bootstrap.keys` identify by an id, by slug and name (`acme/app`): an export gives keys
 * distinct names in the file.
 */
type KeyIds = ReadonlyMap<string, string>

/** What identifies the key that an entry means. */
export interface KeyNaming {
  readonly ids: KeyIds
  readonly finder: KeyFinder
}

/** Made anew for each state. */
export const keyNamingOf = ({ keys = [] }: Bootstrap): KeyNaming => ({
  ids: new Map(
    keys.flatMap(({ id, name, tenant = DEFAULT_TENANT }) => (id === undefined ? [] : [[`${tenant}/${name}`, id]])),
  ),
  finder: new KeyFinder(),
})

/** The key of an entry with an id, where there is one; undefined otherwise. */
const identified = (state: ControlReader, ids: KeyIds, tenantId: string | null, text: string): string | undefined => {
  if (ids.size === 0) return undefined
  const slug = tenantId === null ? null : state.table('tenants').get(tenantId)?.slug
  const id = ids.get(slug === null ? text : `${slug}/${text}`)
  const row = id === undefined ? undefined : state.table('keys').get(id)
  return row === undefined || (tenantId !== null && row.tenant_id !== tenantId) ? undefined : row.id
}

/**
 * A key by its id, or by the name of the only active one of that name: of that tenant when one is given, else of the
 * tenant whose slug stands before a slash (`acme/app`), else of all. A text that no key has is returned as it came.
 * Throws Rejection where several keys match.
 */
export const keyOf = (state: ControlReader, naming: KeyNaming, tenantId: string | null, text: string): string => {
  if (state.table('keys').get(text) !== undefined) return text
  const known = identified(state, naming.ids, tenantId, text)
  if (known !== undefined) return known
  if (tenantId === null) {
    const slash = text.indexOf('/')
    const [owner] = slash < 1 ? [] : state.table('tenants').find('slug', text.slice(0, slash))
    const owned = owner === undefined ? [] : activeKeys(state, naming.finder, owner, text.slice(slash + 1))
    if (owned.length > 0) return theOnly(owned, text)
  }
  const owners = tenantId === null ? [...state.table('tenants').rows()].map(([id]) => id) : [tenantId]
  const named = owners.flatMap((owner) => activeKeys(state, naming.finder, owner, text))
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
    throw new Rejection('invalid', '"expires_at" is not a time', 'expires_at')
  return new Date(ms).toISOString()
}
