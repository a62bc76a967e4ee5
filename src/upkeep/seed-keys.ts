// Keys of the first start and of `bootstrap.keys`. A plaintext comes from the environment, or is minted and told once, by whoever's decision counted.
import { type ApiKeyRow, decideApiKey, type Scope } from '../domain/api-key.ts'
import type { BootstrapKey } from '../domain/bootstrap.ts'
import type { ControlReader } from '../domain/control.ts'
import type { EventRecord } from '../domain/decision.ts'
import { policyKey } from '../domain/policy.ts'
import { Rejection } from '../domain/rejection.ts'
import { sha256Hex } from '../lib/digest.ts'
import { momentOf } from './seed-names.ts'
import type { SeedDeps, SeedInput, SeedReport, SeedStep } from './seed-step.ts'

export const DEFAULT_TENANT = 'default'
export const ADMIN_KEY_NAME = 'bootstrap-admin'
export const INFERENCE_KEY_NAME = 'bootstrap-inference'

/** What the settings ask for cannot be: a key that no client could send, a name that nothing has. The message is one line and holds no part of a key. */
export class BootstrapRefused extends Error {
  override readonly name = 'BootstrapRefused'
}

interface UsualKey {
  readonly scopes: readonly Scope[]
  /** Of the environment: its text, when it is set. */
  readonly variable: string
}
const USUAL = {
  [ADMIN_KEY_NAME]: { scopes: ['*'], variable: 'GATEWAY_BOOTSTRAP_ADMIN_KEY' },
  [INFERENCE_KEY_NAME]: { scopes: ['inference'], variable: 'GATEWAY_BOOTSTRAP_INFERENCE_KEY' },
} as const satisfies Readonly<Record<string, UsualKey>>

/** The key that the environment makes under this name; undefined for every other. `tenant`: a slug. */
export const usualKey = (tenant: string | undefined, name: string): UsualKey | undefined =>
  tenant === DEFAULT_TENANT && Object.hasOwn(USUAL, name) ? USUAL[name as keyof typeof USUAL] : undefined

/** Whether these are its scopes, in any order. */
export const hasScopes = (key: UsualKey, scopes: readonly string[]): boolean =>
  [...new Set(scopes)].sort().join() === [...key.scopes].sort().join()

const MAX_KEY_LENGTH = 512
const HOUR_MS = 3_600_000
const SEEDER = { scopes: ['*'] } as const

const requireUsable = (key: string, variable: string, minLength: number): void => {
  if (key.length < minLength || key.length > MAX_KEY_LENGTH) {
    throw new BootstrapRefused(`${variable}: a key must have ${minLength} to ${MAX_KEY_LENGTH} characters`)
  }
  if (!/^[\x21-\x2b\x2d-\x7e]+$/.test(key)) {
    throw new BootstrapRefused(
      `${variable}: a key must consist of visible ASCII characters without comma, or no header could carry it`,
    )
  }
}

interface Wanted {
  readonly name: string
  readonly tenantSlug: string
  readonly scopes: readonly Scope[]
  /** Given by the environment; null: minted. */
  readonly given: string | null
  /** True: minted only while there is no key at all. */
  readonly firstStartOnly: boolean
  readonly entry: BootstrapKey | null
}

/** The keys that should be there. Throws BootstrapRefused for one that no client could send, or whose variable is not set. */
export const wantedKeys = (
  { bootstrap, adminKey, inferenceKey }: SeedInput,
  deps: Pick<SeedDeps, 'env' | 'minKeyLength'>,
): Wanted[] => {
  const own = { tenantSlug: DEFAULT_TENANT, firstStartOnly: true, entry: null }
  const entries = (bootstrap.keys ?? []).map((entry): Wanted => {
    const given = entry.key_env === undefined ? null : (deps.env(entry.key_env) ?? null)
    if (entry.key_env !== undefined && (given === null || given === '')) {
      throw new BootstrapRefused(`bootstrap.keys: the variable ${entry.key_env} of the key "${entry.name}" is not set`)
    }
    if (given !== null) requireUsable(given, entry.key_env!, deps.minKeyLength)
    return {
      name: entry.name,
      tenantSlug: entry.tenant ?? DEFAULT_TENANT,
      scopes: entry.scopes,
      given,
      firstStartOnly: false,
      entry,
    }
  })
  if (adminKey !== null) requireUsable(adminKey, USUAL[ADMIN_KEY_NAME].variable, deps.minKeyLength)
  if (inferenceKey !== null) requireUsable(inferenceKey, USUAL[INFERENCE_KEY_NAME].variable, deps.minKeyLength)
  const usual: Wanted[] = [
    { ...own, name: ADMIN_KEY_NAME, scopes: USUAL[ADMIN_KEY_NAME].scopes, given: adminKey },
    { ...own, name: INFERENCE_KEY_NAME, scopes: USUAL[INFERENCE_KEY_NAME].scopes, given: inferenceKey },
  ]
  return withUsual(usual, entries)
}

/**
 * An entry with the name of one of the usual keys is that key: it has the usual scopes, and the text that the environment gives. Settings that list a
 * key with every scope bring their own: nothing else is minted then.
 */
const withUsual = (usual: readonly Wanted[], entries: readonly Wanted[]): Wanted[] => {
  const isSame = (a: Wanted, b: Wanted) => a.name === b.name && a.tenantSlug === b.tenantSlug
  const bringsItsOwn = entries.some(({ scopes }) => scopes.includes('*'))
  const listed = entries.map((entry) => {
    const key = usual.find((one) => isSame(one, entry))
    return key === undefined ? entry : { ...entry, given: key.given, scopes: key.scopes }
  })
  const rest = usual.filter(
    (one) => !entries.some((entry) => isSame(one, entry)) && (one.given !== null || !bringsItsOwn),
  )
  return [...rest, ...listed]
}

const expiryOf = (entry: BootstrapKey | null, nowMs: number): string | null => {
  if (entry?.expires_at !== undefined) return momentOf(entry.expires_at)
  return entry?.expires_in_hours === undefined ? null : new Date(nowMs + entry.expires_in_hours * HOUR_MS).toISOString()
}

/** The id of the policy that an entry names, null for none. */
const policyOf = (state: ControlReader, tenantId: string, entry: BootstrapKey | null): string | null => {
  const name = entry?.routing_policy
  if (name === undefined) return null
  const said = entry?.routing_policy_owner
  const owners = said === undefined ? [tenantId, null] : [said === 'tenant' ? tenantId : null]
  const [id] = owners.flatMap((owner) => state.table('policies').find('name', policyKey(owner, name)))
  return id ?? null
}

const hasOthers = (state: ControlReader, mine: ReadonlySet<string>): boolean => {
  for (const [id] of state.table('keys').rows()) if (!mine.has(id)) return true
  return false
}

/** The secret of the newest is rotated, whatever else the API has set; no other keeps a secret that settings gave it before. */
const rotated = (state: ControlReader, active: readonly ApiKeyRow[], digest: string): EventRecord[] => {
  const [newest, ...older] = active.toReversed()
  const stale = older.filter((row) => row.digest === row.seeded_digest)
  const granter = { scopes: ['*', ...newest!.scopes] }
  return [
    ...stale.flatMap(({ id }) => decideApiKey(state, { do: 'revoke', id })),
    ...decideApiKey(state, { do: 'rotate', id: newest!.id, digest, seeded_digest: digest, granter }),
  ]
}

/**
 * Pure: what one wanted key needs. `mine`: ids of the keys that this start makes, which are no reason against one another. A secret that was rotated away
 * or revoked never comes back by an unchanged setting; a changed one is a rotation, or a new key. One that is minted is minted once: what the API
 * changed, renamed or revoked, or made under its name, stands in its place.
 */
const decideKey = (
  state: ControlReader,
  wanted: Wanted,
  fresh: PreparedKey['fresh'],
  mine: ReadonlySet<string>,
): EventRecord[] => {
  const [tenantId] = state.table('tenants').find('slug', wanted.tenantSlug)
  if (tenantId === undefined) return []
  const keys = state.table('keys')
  if (keys.get(fresh.id) !== undefined) return []
  const rows = keys
    .find('tenant', tenantId)
    .toSorted()
    .map((id) => keys.get(id)!) // ids sort by time
  const seeded = rows.filter((row) => row.seeded_name === wanted.name)
  const ended: string[] = []
  if (wanted.given !== null) {
    if (keys.find('digest', fresh.digest).length > 0) return []
    // The settings say what they said before: what became of the key since, a rotation or the end of it, stands.
    if (rows.some((row) => row.seeded_digest === fresh.digest)) return []
    const active = seeded.filter(({ status }) => status === 'active')
    const working = active.filter((row) => row.expires_at === null || Date.parse(row.expires_at) > fresh.nowMs)
    if (working.length > 0) return rotated(state, working, fresh.digest)
    // What has expired has ended: a changed secret is that of a new key, or nobody could come in by it.
    for (const row of active) if (row.digest === row.seeded_digest) ended.push(row.id)
  } else {
    if (seeded.length > 0 || (wanted.firstStartOnly && hasOthers(state, mine))) return []
    const named = rows.filter(({ name }) => name === wanted.name)
    if (named.some(({ status }) => status === 'active')) return []
    if (named.length > 0) throw new Rejection('conflict', 'it is not made: a key of this name was revoked by the API')
  }
  const { entry } = wanted
  const issued = decideApiKey(state, {
    do: 'issue',
    id: fresh.id,
    tenant_id: tenantId,
    name: wanted.name,
    scopes: [...wanted.scopes],
    digest: fresh.digest,
    ...(wanted.given === null ? {} : { seeded_digest: fresh.digest }),
    seeded_name: wanted.name,
    expires_at: expiryOf(entry, fresh.nowMs),
    routing_policy_id: policyOf(state, tenantId, entry),
    rate_limits: entry?.rate_limits ?? null,
    managed_by: 'bootstrap',
    granter: SEEDER,
  })
  return [...ended.flatMap((id) => decideApiKey(state, { do: 'revoke', id })), ...issued]
}

/** A key that is wanted, with what it will be if it has to be made. */
export interface PreparedKey extends Wanted {
  readonly plaintext: string
  readonly fresh: { readonly id: string; readonly digest: string; readonly nowMs: number }
}

/**
 * Mints what may be needed, once for the life of the process: when the outcome of a first try is not known, the next one must be able to
 * recognise its keys, or nobody would ever learn them. Throws BootstrapRefused for a key that no client could send.
 */
export const prepareKeys = (input: SeedInput, deps: SeedDeps): readonly PreparedKey[] =>
  wantedKeys(input, deps).map((one) => {
    const plaintext = one.given ?? deps.newApiKey()
    return { ...one, plaintext, fresh: { id: deps.newId('key'), digest: sha256Hex(plaintext), nowMs: deps.nowMs() } }
  })

export const keySteps = (prepared: readonly PreparedKey[]): SeedStep[] => {
  const mine = new Set(prepared.map(({ fresh }) => fresh.id))
  return prepared.map((one) => ({
    what: `bootstrap.keys "${one.name}"`,
    decide: (state) => decideKey(state, one, one.fresh, mine),
  }))
}

/** The minted ones that count, whichever attempt it was that made them. */
export const mintedKeys = (prepared: readonly PreparedKey[], state: ControlReader): SeedReport['minted'] => {
  const keys = state.table('keys')
  return prepared
    .filter(({ given, fresh }) => given === null && keys.get(fresh.id)?.digest === fresh.digest)
    .map(({ name, scopes, plaintext }) => ({ name, scopes, plaintext }))
}
