// Whether the key texts of the environment open anything, once everything is seeded. What the API did to a key since
// then takes precedence over its variable.
import { type ApiKeyRow, hasExpired } from '../../domain/access/api-key.ts'
import { retiredAtMs } from '../../domain/access/retired-secrets.ts'
import type { ControlReader } from '../../domain/control.ts'
import { called, type PreparedKey, seededRows, usualKey } from './keys.ts'
import { KeyFinder } from './names.ts'
import type { SeedReport } from './step.ts'

type Given = Pick<PreparedKey, 'fresh' | 'nowMs'>

/** The key that a text opens, of any tenant or name; undefined when it opens none. */
const openedBy = (state: ControlReader, { fresh, nowMs }: Given): ApiKeyRow | undefined =>
  state
    .table('keys')
    .findRows('digest', fresh.digest)
    .find((row) => row.status === 'active' && !hasExpired(row, nowMs()))

/**
 * The key that has, or had, this text by the settings or under its name. The seeder decided nothing about it, since the
 * settings are unchanged.
 */
const leftAsItIs = (state: ControlReader, one: PreparedKey, finder: KeyFinder): ApiKeyRow | undefined => {
  const { digest } = one.fresh
  const seeded = seededRows(state, one, finder)
  const [tenantId] = state.table('tenants').find('slug', one.tenantSlug)
  const named = tenantId === undefined ? [] : finder.find(state, tenantId, one.name).named
  return (
    [...seeded, ...named].find((row) => row.digest === digest) ??
    seeded.findLast((row) => row.seeded_digest === digest && row.digest !== digest)
  )
}

const endOf = (state: ControlReader, row: ApiKeyRow, { fresh, nowMs }: Given): { why: string; mend: string } => {
  const ended = { mend: 'give it a new text' }
  const atMs = row.digest === fresh.digest ? null : retiredAtMs(state, fresh.digest)
  const rotated = `the API rotated it away${atMs === null ? '' : ` at ${new Date(atMs).toISOString()}`}`
  const isRotated = row.digest !== fresh.digest
  if (row.status === 'revoked')
    return { ...ended, why: isRotated ? rotated : `its key was revoked at ${row.revoked_at}` }
  if (!isRotated) return { ...ended, why: `its key ended at ${row.expires_at}` }
  const mend = hasExpired(row, nowMs()) ? ended.mend : 'give it the text that the key has now, or a new one'
  return { why: rotated, mend }
}

/**
 * Why the text that the environment gives opens nothing and what to do, where no step has reported it; [] otherwise.
 * `finder`: of names that contain its name.
 */
export const deadText = (state: ControlReader, one: PreparedKey, finder: KeyFinder): string[] => {
  if (one.given === null || openedBy(state, one) !== undefined) return []
  const row = leftAsItIs(state, one, finder)
  if (row === undefined) return []
  const variable = one.entry?.key_env ?? usualKey(one.tenantSlug, one.name)?.variable
  const { why, mend } = endOf(state, row, one)
  return [`the text of ${variable} is answered with 401: ${why}; ${mend}`]
}

/** The same of the keys that only the environment names. */
export const usualTextNotes = (prepared: readonly PreparedKey[], state: ControlReader): string[] => {
  const own = prepared.filter(({ entry }) => entry === null)
  const finder = new KeyFinder(new Set(own.map(({ name }) => name)))
  return own.flatMap((one) => deadText(state, one, finder).map((note) => `${called(one)}: ${note}`))
}

/** The usual variables whose text opens a key, with the scopes of that key. */
export const workingTexts = (prepared: readonly PreparedKey[], state: ControlReader): SeedReport['working'] =>
  prepared.flatMap((one) => {
    const variable = usualKey(one.tenantSlug, one.name)?.variable
    const row = one.given === null || variable === undefined ? undefined : openedBy(state, one)
    return row === undefined ? [] : [{ variable: variable!, scopes: row.scopes }]
  })
