// Keys of the first start and of `bootstrap.keys`. A plaintext comes from the environment, or is minted and printed
// once, by the process whose decision counted.
import { type ApiKeyRow, decideApiKey, hasExpired, type Scope } from '../../domain/access/api-key.ts'
import { retiredAtMs } from '../../domain/access/retired-secrets.ts'
import type { BootstrapKey } from '../../domain/bootstrap.ts'
import type { ControlReader } from '../../domain/control.ts'
import type { EventRecord } from '../../domain/kernel/decision.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import { policyKey } from '../../domain/steering/policy.ts'
import { sha256Hex } from '../../lib/crypto/digest.ts'
import { DEFAULT_TENANT, KeyFinder, momentOf } from './names.ts'
import type { SeedDeps, SeedInput, SeedReport, SeedStep } from './step.ts'

export const ADMIN_KEY_NAME = 'bootstrap-admin'
export const INFERENCE_KEY_NAME = 'bootstrap-inference'

/**
 * The settings ask for something impossible: a key that no client could send, a name that no row has. The message is
 * one line and holds no part of a key.
 */
export class BootstrapRefused extends Error {
  override readonly name = 'BootstrapRefused'
}

interface UsualKey {
  readonly scopes: readonly Scope[]
  /** Variable of the environment that holds the text of the key, when it is set. */
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
export const hasScopes = (key: Pick<UsualKey, 'scopes'>, scopes: readonly string[]): boolean =>
  [...new Set(scopes)].sort().join() === [...key.scopes].sort().join()

const MAX_KEY_LENGTH = 512
const HOUR_MS = 3_600_000
export const SEEDER = { scopes: ['*'] } as const

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

/**
 * The keys that the settings and the environment ask for. Throws BootstrapRefused for a key that no client could send,
 * or whose variable is not set.
 */
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
 * An entry with the name of one of the usual keys is that key: it has the usual scopes, and the text that the
 * environment gives. Where the settings list a key with every scope, no further key is minted.
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

/**
 * The id of the policy that an entry names, null where it names none. Throws Rejection for a name that its tenant
 * cannot use: then a new key is not made, and an existing key is left as it is.
 */
export const policyOf = (state: ControlReader, tenantId: string, entry: BootstrapKey | null): string | null => {
  const name = entry?.routing_policy
  if (name === undefined) return null
  const policyOwner = entry?.routing_policy_owner
  const owners = policyOwner === undefined ? [tenantId, null] : [policyOwner === 'tenant' ? tenantId : null]
  const [id] = owners.flatMap((owner) => state.table('policies').find('name', policyKey(owner, name)))
  if (id === undefined) throw new Rejection('invalid', `no policy that its tenant can use is named "${name}"`)
  return id
}

const hasOthers = (state: ControlReader, mine: ReadonlySet<string>): boolean => {
  for (const [id] of state.table('keys').rows()) if (!mine.has(id)) return true
  return false
}

/**
 * The secret of the newest key is rotated, whatever else the API has set. No older key keeps a secret that the settings
 * gave it before.
 */
const rotated = (state: ControlReader, active: readonly ApiKeyRow[], digest: string): EventRecord[] => {
  const [newest, ...older] = active.toReversed()
  const stale = older.filter((row) => row.digest === row.seeded_digest)
  const granter = { scopes: ['*', ...newest!.scopes] }
  return [
    ...stale.flatMap(({ id }) => decideApiKey(state, { do: 'revoke', id })),
    ...decideApiKey(state, { do: 'rotate', id: newest!.id, digest, seeded_digest: digest, granter }),
  ]
}

/** How notes name a wanted key. */
export const called = ({ name, tenantSlug }: Pick<Wanted, 'name' | 'tenantSlug'>): string => {
  const usual = usualKey(tenantSlug, name)
  return `the key "${name}" of ${tenantSlug}${usual === undefined ? '' : ` (${usual.variable})`}`
}

/** Throws Rejection for a text that another key has, or that worked once and must not work again. */
const requireUnusedText = (state: ControlReader, digest: string): void => {
  const [other] = state.table('keys').findRows('digest', digest)
  if (other?.status === 'revoked')
    throw new Rejection('conflict', noMore(`is that of the key "${other.name}", which was revoked`))
  if (other !== undefined) {
    const tenantSlug = state.table('tenants').get(other.tenant_id)!.slug
    throw new Rejection('conflict', leftOut({ name: other.name, tenantSlug }))
  }
  const atMs = retiredAtMs(state, digest)
  if (atMs === null) return
  const at = new Date(atMs).toISOString()
  throw new Rejection('conflict', noMore(`was rotated away, or removed with its tenant, at ${at}`))
}

const leftOut = (other: Pick<Wanted, 'name' | 'tenantSlug'>): string =>
  `left out: it has the same text as ${called(other)}; give each key a text of its own`

const noMore = (what: string): string =>
  `left out: its text ${what}: such a text never works again; give it another one`

/**
 * The events for a key whose text the environment gives: none where the settings are unchanged, since a rotation or an
 * end that the key met meanwhile stands; a rotation where the key works; null for a new key. Throws Rejection for a
 * text that must not be used.
 */
const decideGiven = (
  state: ControlReader,
  { named, seeded }: { readonly named: readonly ApiKeyRow[]; readonly seeded: readonly ApiKeyRow[] },
  { fresh: { digest }, nowMs }: PreparedKey,
): EventRecord[] | null => {
  if (seeded.some((row) => row.digest === digest || row.seeded_digest === digest)) return []
  if (named.some((row) => row.digest === digest)) return []
  requireUnusedText(state, digest)
  const working = seeded.filter((row) => row.status === 'active' && !hasExpired(row, nowMs()))
  return working.length === 0 ? null : rotated(state, working, digest)
}

/** The keys that an entry is about: the one of its id, else those that the settings made under its name. */
export const seededRows = (state: ControlReader, wanted: Wanted, finder: KeyFinder): readonly ApiKeyRow[] => {
  const [tenantId] = state.table('tenants').find('slug', wanted.tenantSlug)
  if (tenantId === undefined) return []
  const identified = wanted.entry?.id === undefined ? undefined : state.table('keys').get(wanted.entry.id)
  return identified?.tenant_id === tenantId ? [identified] : finder.find(state, tenantId, wanted.name).seeded
}

/**
 * Pure: the events that one wanted key needs. `mine`: ids of the keys that this start makes, which do not conflict with
 * each other. A minted key is minted once: a key that the API changed, renamed, revoked, or made under its name stands
 * in its place.
 */
const decideKey = (
  state: ControlReader,
  wanted: PreparedKey,
  { mine, finder }: { readonly mine: ReadonlySet<string>; readonly finder: KeyFinder },
): EventRecord[] => {
  const { fresh, entry } = wanted
  const [tenantId] = state.table('tenants').find('slug', wanted.tenantSlug)
  if (tenantId === undefined) return []
  const keys = state.table('keys')
  if (keys.get(fresh.id) !== undefined) return []
  const { named } = finder.find(state, tenantId, wanted.name)
  const seeded = seededRows(state, wanted, finder)
  if (wanted.given !== null) {
    const decided = decideGiven(state, { named, seeded }, wanted)
    if (decided !== null) return decided
  } else {
    if (seeded.length > 0 || (wanted.firstStartOnly && hasOthers(state, mine))) return []
    if (named.some(({ status }) => status === 'active')) return []
    if (named.length > 0) throw new Rejection('conflict', 'it is not made: a key of this name was revoked by the API')
  }
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
  // An expired key stays ended: a changed secret goes to a new key, else the key could not be used.
  const ended = seeded.filter((row) => wanted.given !== null && row.digest === row.seeded_digest)
  return [...ended.flatMap(({ id }) => decideApiKey(state, { do: 'revoke', id })), ...issued]
}

/** A wanted key, with the plaintext and id that it gets if it has to be made. */
export interface PreparedKey extends Wanted {
  readonly plaintext: string
  readonly fresh: { readonly id: string; readonly digest: string; readonly nowMs: number }
  /** A start may wait for the log for hours, in which keys end. */
  nowMs(): number
}

/**
 * Mints what may be needed, once for the life of the process: when the result of a first try is indefinite, the next
 * one must recognise its keys, or their plaintexts would never be printed. Throws BootstrapRefused for a key that no
 * client could send.
 */
export const prepareKeys = (input: SeedInput, deps: SeedDeps): readonly PreparedKey[] =>
  wantedKeys(input, deps).map((one) => {
    const plaintext = one.given ?? deps.newApiKey()
    const fresh = { id: deps.newId('key'), digest: sha256Hex(plaintext), nowMs: deps.nowMs() }
    return { ...one, plaintext, fresh, nowMs: deps.nowMs }
  })

/** Whether a text that the environment gave before is in use. */
const hasWorkingText = (state: ControlReader, one: PreparedKey, finder: KeyFinder): boolean =>
  one.given !== null &&
  seededRows(state, one, finder).some(
    (row) => row.status === 'active' && !hasExpired(row, one.nowMs()) && row.digest !== one.fresh.digest,
  )

const goesOnWorking = ({ reason, message }: Rejection): Rejection =>
  new Rejection(reason, `${message}; the text that it has goes on working`)

/** A text that two of them have is that of the first. */
export const keySteps = (prepared: readonly PreparedKey[]): SeedStep[] => {
  const shared = {
    mine: new Set(prepared.map(({ fresh }) => fresh.id)),
    finder: new KeyFinder(new Set(prepared.map(({ name }) => name))),
  }
  const firstOf = new Map<string, PreparedKey>()
  return prepared.map((one) => {
    const first = firstOf.get(one.fresh.digest)
    if (first === undefined) firstOf.set(one.fresh.digest, one)
    const decide = (state: ControlReader): EventRecord[] => {
      try {
        if (first !== undefined) throw new Rejection('conflict', leftOut(first))
        return decideKey(state, one, shared)
      } catch (error) {
        throw error instanceof Rejection && hasWorkingText(state, one, shared.finder) ? goesOnWorking(error) : error
      }
    }
    return { what: one.entry === null ? called(one) : `bootstrap.keys "${one.name}"`, decide }
  })
}

/** The minted ones that count, whichever attempt it was that made them. */
export const mintedKeys = (prepared: readonly PreparedKey[], state: ControlReader): SeedReport['minted'] => {
  const keys = state.table('keys')
  return prepared
    .filter(({ given, fresh }) => given === null && keys.get(fresh.id)?.digest === fresh.digest)
    .map(({ name, scopes, plaintext }) => ({ name, scopes, plaintext }))
}
