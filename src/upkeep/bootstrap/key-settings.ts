// What `bootstrap.keys` sets of existing keys: scopes, end, limits and policy, as long as the API has not edited them.
import { type ApiKeyRow, decideApiKey, hasExpired } from '../../domain/access/api-key.ts'
import type { ControlReader } from '../../domain/control.ts'
import type { EventRecord } from '../../domain/kernel/decision.ts'
import { Rejection } from '../../domain/kernel/rejection.ts'
import { canonicalJson } from '../../domain/kernel/tables.ts'
import { deadText } from './given-keys.ts'
import { hasScopes, type PreparedKey, policyOf, SEEDER, seededRows, usualKey } from './keys.ts'
import { KeyFinder, momentOf } from './names.ts'
import type { SeedStep } from './step.ts'

type Settings = Pick<ApiKeyRow, 'scopes' | 'expires_at' | 'rate_limits' | 'routing_policy_id'>
type Listed = PreparedKey & { readonly entry: NonNullable<PreparedKey['entry']> }

const listedOf = (prepared: readonly PreparedKey[]): readonly Listed[] =>
  prepared.filter((one): one is Listed => one.entry !== null)

const finderOf = (listed: readonly Listed[]): KeyFinder => new KeyFinder(new Set(listed.map(({ name }) => name)))

/** The end that an entry sets; undefined where it sets none, since its hours count from when the key was made. */
const endOf = ({ entry }: Listed): string | null | undefined => {
  if (entry.expires_at !== undefined) return momentOf(entry.expires_at)
  return entry.expires_in_hours === undefined ? null : undefined
}

const isSameMoment = (a: string | null, b: string | null): boolean =>
  a === null || b === null ? a === b : Date.parse(a) === Date.parse(b)

/** The members of a row that differ from its entry, without the policy, with the values of the entry. */
const differenceOf = (row: ApiKeyRow, one: Listed): Omit<Partial<Settings>, 'routing_policy_id'> => {
  const { entry, scopes, tenantSlug, name } = one
  const limits = entry.rate_limits ?? null
  const end = endOf(one)
  return {
    // The scopes of the environment's keys are not set by an entry.
    ...(usualKey(tenantSlug, name) !== undefined || hasScopes({ scopes }, row.scopes) ? {} : { scopes }),
    ...(end === undefined || isSameMoment(end, row.expires_at) ? {} : { expires_at: end }),
    ...(canonicalJson(limits) === canonicalJson(row.rate_limits) ? {} : { rate_limits: limits }),
  }
}

/** The same of its policy. Throws Rejection for one that its tenant cannot use. */
const policyDifferenceOf = (
  state: ControlReader,
  row: ApiKeyRow,
  { entry }: Listed,
): Pick<Partial<Settings>, 'routing_policy_id'> => {
  const policyId = policyOf(state, row.tenant_id, entry)
  // A deleted policy has no name that an entry could use.
  const isGone = row.routing_policy_id !== null && state.table('policies').get(row.routing_policy_id) === undefined
  return policyId === row.routing_policy_id || (policyId === null && isGone) ? {} : { routing_policy_id: policyId }
}

/**
 * Whether an entry may prolong a key. It may prolong only the newest of its keys, and an ended key only while its text
 * is the one that the environment gives: an ended key must not work again after a start when its text came from the API
 * or is not known to this process.
 */
const mayProlong = (one: Listed, row: ApiKeyRow, rows: readonly ApiKeyRow[]): boolean =>
  row.id === rows.at(-1)!.id && (!hasExpired(row, one.nowMs()) || hasGivenText(one, row))

const hasGivenText = ({ given, fresh }: Listed, row: ApiKeyRow): boolean =>
  given !== null && row.digest === fresh.digest

const isLater = (end: string | null, than: string | null): boolean =>
  than !== null && (end === null || Date.parse(end) > Date.parse(than))

/**
 * These steps come after the steps that make keys: a key that this start makes has its settings already. Where its
 * policy cannot be used, the rest is set all the same, and `keySettingNotes` reports why.
 */
export const keySettingSteps = (prepared: readonly PreparedKey[]): SeedStep[] => {
  const listed = listedOf(prepared)
  const finder = finderOf(listed)
  return listed.map((one) => ({
    what: `bootstrap.keys "${one.name}"`,
    decide: (state) => {
      const rows = seededRows(state, one, finder)
      return rows
        .filter(({ status, managed_by }) => status === 'active' && managed_by === 'bootstrap')
        .flatMap((row) => {
          const wanted = lastingNoLonger(row, one, mayProlong(one, row, rows))
          const policy = valueOrRefusal(() => policyDifferenceOf(state, row, one))
          return changed(state, row, typeof policy === 'string' ? wanted : { ...wanted, ...policy })
        })
    },
  }))
}

/** The result, or why it was refused. */
const valueOrRefusal = <Value>(decide: () => Value): Value | string => {
  try {
    return decide()
  } catch (error) {
    if (!(error instanceof Rejection)) throw error
    return error.message
  }
}

/** The difference, without a later end where the key may not have one. */
const lastingNoLonger = (row: ApiKeyRow, one: Listed, mayLast: boolean): Partial<Settings> => {
  const { expires_at, ...others } = differenceOf(row, one)
  const isKept = expires_at === undefined || (!mayLast && isLater(expires_at, row.expires_at))
  return isKept ? others : { ...others, expires_at }
}

const changed = (state: ControlReader, row: ApiKeyRow, { scopes, ...others }: Partial<Settings>): EventRecord[] => {
  const wanted = { ...others, ...(scopes === undefined ? {} : { scopes: [...scopes] }) }
  return decideApiKey(state, { do: 'change', id: row.id, ...wanted, managed_by: 'bootstrap', granter: SEEDER })
}

/** The members of an entry, by those of a row. */
const CALLED: Readonly<Record<keyof Settings, string>> = {
  scopes: 'scopes',
  expires_at: 'expires_at',
  rate_limits: 'rate_limits',
  routing_policy_id: 'routing_policy',
}

/** The settings of entries that are not in effect, once everything is seeded. */
export const keySettingNotes = (prepared: readonly PreparedKey[], state: ControlReader): string[] => {
  const listed = listedOf(prepared)
  const finder = finderOf(listed)
  return listed.flatMap((one) => {
    const { entry } = one
    const nowMs = one.nowMs()
    const all = seededRows(state, one, finder)
    const rows = all.filter(({ status }) => status === 'active')
    const notes = [...new Set(rows.flatMap((row) => inVain(state, row, one)))]
    const ends = rows.length > 0 && rows.at(-1) === all.at(-1) ? staysEnded(rows.at(-1)!, one) : []
    const isPast = entry.expires_at !== undefined && hasExpired({ expires_at: entry.expires_at }, nowMs)
    // One that the API has prolonged works.
    if (isPast && !rows.some((row) => !hasExpired(row, nowMs)))
      ends.push('its expires_at is past: the key does not work')
    notes.push(...(ends.length > 0 ? ends : deadText(state, one, finder)))
    const isEndless = entry.expires_at === undefined && entry.expires_in_hours !== undefined
    if (isEndless && rows.some((row) => row.managed_by === 'bootstrap' && row.expires_at === null))
      notes.push('it was made without an end, and expires_in_hours counts from then: say expires_at')
    return notes.map((note) => `bootstrap.keys "${one.name}": ${note}`)
  })
}

/**
 * The note that an entry sets a later end of the newest key without effect. Where a new text was refused, that is
 * reported already.
 */
const staysEnded = (row: ApiKeyRow, one: Listed): string[] => {
  const end = endOf(one)
  const isKept = row.managed_by === 'bootstrap' && end !== undefined && isLater(end, row.expires_at)
  if (!isKept || !hasExpired(row, one.nowMs()) || hasGivenText(one, row)) return []
  const since = `its end (${row.expires_at}) is past, and`
  if (one.given === null)
    return [
      `${since} its text is not one that the settings give: it stays ended; prolong it by the API, or give the ` +
        `entry another name`,
    ]
  if (row.seeded_digest !== one.fresh.digest) return []
  const variable = one.entry.key_env ?? usualKey(one.tenantSlug, one.name)?.variable
  return [`${since} the text that ${variable} gives is no longer its own: it stays ended; give it a new text`]
}

const inVain = (state: ControlReader, row: ApiKeyRow, one: Listed): string[] => {
  const policy = valueOrRefusal(() => policyDifferenceOf(state, row, one))
  const refused = typeof policy === 'string' ? [policy] : []
  if (row.managed_by === 'bootstrap') return refused
  const members = Object.keys({ ...differenceOf(row, one), ...(typeof policy === 'string' ? {} : policy) })
  const edited = members.map((member) => CALLED[member as keyof Settings])
  return [
    ...edited.map(
      (member) => `${member}: what is said here is not applied, the API has edited the key (${row.id}) since`,
    ),
    ...refused,
  ]
}
