// Overrides: what operators impose on requests at once, above every policy. Rows are only ever added; the last one of (kind, target, tenant) decides,
// and is in force while enabled and not expired. Names and fields of the events are stored for ever.
import { type Static, t } from '../lib/schema.ts'
import { type Aggregate, changesOf, eventType, type Stamps } from './aggregate.ts'
import type { ControlReader } from './control.ts'
import type { Actor, EventRecord } from './decision.ts'
import { Id, Nullable, Timestamp } from './fields.ts'
import { ModelName } from './model.ts'
import { type OverrideValue, overrideKindOf, overrideValueOf, targetOf } from './override-target.ts'
import { Rejection } from './rejection.ts'
import { isSeeder } from './seeder.ts'
import type { RowChange } from './tables.ts'

export const OverrideReason = t.String({ maxLength: 1_024 })

export const OverrideWritten = t.Object({
  id: Id,
  kind: t.String({ minLength: 1, maxLength: 32 }),
  target: t.String({ minLength: 1, maxLength: 320 }),
  /** Null: for every tenant. */
  tenant_id: Nullable(Id),
  value: Nullable(
    t.Object({
      max_cost_usd: t.Optional(t.Number({ minimum: 0 })),
      model: t.Optional(ModelName),
      features: t.Optional(t.Array(t.String({ minLength: 1, maxLength: 64 }), { maxItems: 32 })),
    }),
  ),
  enabled: t.Boolean(),
  reason: Nullable(OverrideReason),
  expires_at: Nullable(Timestamp),
})

export interface OverrideRow extends Stamps {
  readonly id: string
  readonly kind: string
  readonly target: string
  readonly tenant_id: string | null
  readonly value: OverrideValue | null
  readonly enabled: boolean
  readonly reason: string | null
  /** RFC 3339, null: until it is taken back. Compared at use. */
  readonly expires_at: string | null
  readonly actor: Actor
  /** A later row of the same kind, target and tenant decides. Kept by the fold, not shown. */
  readonly superseded: boolean
  /** Of what `bootstrap:` imposed once, and somebody else wrote since: the settings do not bring theirs back. Kept by the fold, not shown. */
  readonly taken_over?: true
}

/** Rows that decide nothing any more are kept for the list of recent ones only up to here; the log and the audit keep all of them. */
export const HISTORY_KEPT = 1_000
/** Of what `bootstrap:` imposed and somebody took back the row that decides is kept beside these, up to here. */
export const TAKEN_BACK_KEPT = 1_000
/** From so many standing rows on, those that expired a day ago (in log time) are dropped. */
const SWEPT_FROM = 1_000
const SWEPT_AFTER_MS = 86_400_000
/** Of each of these sorts there may be more until so many rows more were written. */
export const LOOKED_EVERY = 256
const AT_ONCE = LOOKED_EVERY / 2
/** Standing rows: a bound of what every instance holds in memory. */
const MAX_STANDING = 10_000

/** Index key: of the rows with one key the one that is not superseded decides. */
export const overrideKey = (kind: string, target: string, tenantId: string | null): string =>
  `${kind}\0${target}\0${tenantId ?? ''}`

/** Whether a row that is not superseded is in force at this moment (Unix milliseconds). */
export const isInForce = ({ enabled, expires_at, superseded }: OverrideRow, nowMs: number): boolean =>
  enabled && !superseded && (expires_at === null || Date.parse(expires_at) > nowMs)

/** Imposes nothing, but without it the next start would impose what `bootstrap:` says. */
const isTakenBack = ({ enabled, superseded, taken_over }: OverrideRow): boolean =>
  taken_over === true && !superseded && !enabled

const isHistory = (row: OverrideRow): boolean => (row.superseded || !row.enabled) && !isTakenBack(row)

const rows = changesOf<OverrideRow>('overrides')

/** Whether it expired so long ago that it may go. */
const isOver = ({ expires_at, taken_over }: OverrideRow, nowMs: number): boolean =>
  taken_over !== true && expires_at !== null && Date.parse(expires_at) <= nowMs - SWEPT_AFTER_MS

const isStanding = (row: OverrideRow): boolean => !isHistory(row) && !isTakenBack(row)

/** Whether as many rows stand as may, without those that go by themselves. Counted only where it may be so. */
const isFull = (state: ControlReader, nowMs: number): boolean => {
  const overrides = state.table('overrides')
  if (overrides.size < MAX_STANDING) return false
  let standing = 0
  for (const [, row] of overrides.rows()) if (isStanding(row) && !isOver(row, nowMs)) standing += 1
  return standing >= MAX_STANDING
}

/**
 * What leaves the state when one more row is written, oldest first. Never the row that is superseded now (`before`): it changes in the same step. Looked for
 * whenever the rows have become a further `LOOKED_EVERY`, and taken away by `AT_ONCE` or more, so that no number of decisions walks all rows at each.
 */
const forgotten = (state: ControlReader, before: OverrideRow | undefined, logAtMs: number): RowChange[] => {
  const overrides = state.table('overrides')
  if ((overrides.size + 1) % LOOKED_EVERY !== 0) return []
  const [history, takenBack, over]: [OverrideRow[], OverrideRow[], OverrideRow[]] = [[], [], []]
  let standing = 0
  for (const [, row] of overrides.rows()) {
    if (row.id === before?.id) continue
    if (isHistory(row)) history.push(row)
    else if (isTakenBack(row)) takenBack.push(row)
    else {
      standing += 1
      if (isOver(row, logAtMs)) over.push(row)
    }
  }
  const surplus = [
    history.slice(0, Math.max(0, history.length - HISTORY_KEPT)),
    takenBack.slice(0, Math.max(0, takenBack.length - TAKEN_BACK_KEPT)),
    standing < SWEPT_FROM ? [] : over,
  ]
  return surplus
    .filter(({ length }) => length >= AT_ONCE)
    .flatMap((gone) => gone.flatMap((row) => rows.removed(row.id, row)))
}

export const override: Aggregate<OverrideRow, ControlReader> = {
  table: 'overrides',
  indexes: {
    tenant: (row) => row.tenant_id ?? '',
    deciding: (row) => (row.superseded ? null : overrideKey(row.kind, row.target, row.tenant_id)),
  },
  events: {
    'override.written': eventType({
      schema: OverrideWritten,
      since: 2,
      action: ({ kind, enabled }) => (kind === 'kill' ? (enabled ? 'kill' : 'revive') : enabled ? 'enable' : 'disable'),
      resource: 'override',
      subject: ({ id }) => id,
    }),
  },
  evolve(state, { data }, meta) {
    const written = data as Static<typeof OverrideWritten>
    const overrides = state.table('overrides')
    if (overrides.get(written.id) !== undefined) return []
    const [decided] = overrides.find('deciding', overrideKey(written.kind, written.target, written.tenant_id))
    const before = decided === undefined ? undefined : overrides.get(decided)
    const wasSeeded = before !== undefined && (before.taken_over === true || isSeeder(before.actor))
    const takenOver = wasSeeded && !isSeeder(meta.actor) ? { taken_over: true as const } : {}
    return [
      ...forgotten(state, before, meta.logAtMs),
      ...(before === undefined
        ? []
        : [{ table: 'overrides', id: before.id, before, after: { ...before, superseded: true } }]),
      ...rows.created(written.id, { ...written, actor: meta.actor, superseded: false, ...takenOver }, meta),
    ]
  },
}

export type OverrideCommand =
  | {
      do: 'write'
      id: string
      kind: string
      /** Null: everything, where the kind allows it. */
      target: string | null
      tenant_id: string | null
      value: unknown
      enabled: boolean
      reason: string | null
      /** RFC 3339 with milliseconds, UTC. */
      expires_at: string | null
      nowMs: number
    }
  /** Kills a provider for everybody, or revives it: for everybody, and for the caller's tenant where it has a kill of its own. `ids`: one for each of the two. */
  | {
      do: 'kill'
      ids: readonly [string, string]
      provider_id: string
      kill: boolean
      reason: string | null
      tenant_id: string
      nowMs: number
    }

const writeOverride = (state: ControlReader, command: OverrideCommand & { do: 'write' }): EventRecord[] => {
  const { do: _, nowMs, ...given } = command
  const kind = overrideKindOf(given.kind)
  const { tenant_id, enabled, expires_at } = given
  if (tenant_id !== null && state.table('tenants').get(tenant_id) === undefined) {
    throw new Rejection('not_found', `no tenant has the id "${tenant_id}"`, 'tenant_id')
  }
  if (enabled && expires_at !== null && Date.parse(expires_at) <= nowMs) {
    throw new Rejection('invalid', '"expires_at" is past: such an override would never be in force', 'expires_at')
  }
  const target = targetOf(state, kind, given.target, enabled)
  const value = overrideValueOf(state, kind, given.value, enabled)
  // What stops requests and what stops changes must always be possible.
  if (enabled && isFull(state, nowMs) && kind !== 'kill' && kind !== 'freeze') {
    throw new Rejection('conflict', `at most ${MAX_STANDING} overrides may stand; take some back first`)
  }
  return [{ type: 'override.written', data: { ...given, kind, target, value } }]
}

/** Each command adds a row, also one that changes nothing: an order of the operator is on record even when it was so already. */
export const decideOverride = (state: ControlReader, command: OverrideCommand): EventRecord[] => {
  if (command.do === 'write') return writeOverride(state, command)
  const { ids, provider_id, kill, reason, tenant_id, nowMs } = command
  if (state.table('providers').get(provider_id) === undefined)
    throw new Rejection('not_found', `no provider has the id "${provider_id}"`)
  const target = `provider:${provider_id}`
  const row = (id: string, tenantId: string | null): EventRecord => {
    const what = { id, kind: 'kill', target, tenant_id: tenantId, value: null, enabled: kill, reason, expires_at: null }
    return { type: 'override.written', data: what }
  }
  const own = inForce(state, 'kill', target, tenant_id, nowMs)
  return !kill && own !== null ? [row(ids[1], tenant_id), row(ids[0], null)] : [row(ids[0], null)]
}

/** The row of exactly this kind, target and tenant that is in force, or null. */
export const inForce = (
  state: ControlReader,
  kind: string,
  target: string,
  tenantId: string | null,
  nowMs: number,
): OverrideRow | null => {
  const overrides = state.table('overrides')
  const [id] = overrides.find('deciding', overrideKey(kind, target, tenantId))
  const row = id === undefined ? undefined : overrides.get(id)
  return row !== undefined && isInForce(row, nowMs) ? row : null
}
