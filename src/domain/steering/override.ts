// Overrides: what operators impose on requests at once, above every policy. Rows are only ever added; the last one of
// (kind, target, tenant) decides, and is in force while enabled and not expired. Names and fields of the events are
// stored for ever.
import { type Static, t } from '../../lib/schema/schema.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changesOf, eventType } from '../kernel/aggregate.ts'
import type { Actor, EventRecord } from '../kernel/decision.ts'
import { Id, Nullable, Timestamp } from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'
import { isSeeder } from '../kernel/seeder.ts'
import { ModelName } from '../registry/model.ts'
import { evicted, inForce, isOver, isStanding, type OverrideRow, overrideKey } from './override-row.ts'
import { overrideKindOf, overrideValueOf, requireOwnKey, targetOf } from './override-target.ts'

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

const rows = changesOf<OverrideRow>('overrides')

/**
 * Rows in force are bounded, since every instance holds them in memory: those that keys of one tenant write without
 * `*`, those of all tenants, and all others.
 */
const MAX_OF_TENANT = 1_000
const MAX_OF_TENANTS = 10_000
const MAX_WITH_EVERY_SCOPE = 10_000

/** The tenant of the key that decided without `*`, else null. */
const writerTenantOf = (state: ControlReader, { type, id }: Actor): string | null => {
  const key = type === 'key' ? state.table('keys').get(id) : undefined
  return key === undefined || key.scopes.includes('*') ? null : key.tenant_id
}

export const override: Aggregate<OverrideRow, ControlReader> = {
  table: 'overrides',
  indexes: {
    tenant: (row) => row.tenant_id ?? '',
    deciding: (row) => (row.superseded ? null : overrideKey(row.kind, row.target, row.tenant_id)),
    standing: (row) => (isStanding(row) ? (row.writer_tenant_id ?? '') : null),
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
    const by = { actor: meta.actor, writer_tenant_id: writerTenantOf(state, meta.actor) }
    return [
      ...evicted(state, before, meta.logAtMs),
      ...(before === undefined
        ? []
        : [{ table: 'overrides', id: before.id, before, after: { ...before, superseded: true } }]),
      ...rows.created(written.id, { ...written, ...by, superseded: false, ...takenOver }, meta),
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
      writer_tenant_id: Writer
      nowMs: number
    }
  /**
   * Kills a provider for all tenants, or revives it: for all tenants, and for the caller's tenant where it has a kill
   * of its own. `ids`: one for each of the two.
   */
  | {
      do: 'kill'
      ids: readonly [string, string]
      provider_id: string
      kill: boolean
      reason: string | null
      tenant_id: string
      writer_tenant_id: Writer
      nowMs: number
    }

/** As in a row: the tenant of a key without `*`, null for all other callers. */
type Writer = string | null

/**
 * Only callers with `*` change an override that was imposed with `*`. Not even the same value may be written over it,
 * since the last writer could take it back.
 */
const requireOwnToChange = (
  state: ControlReader,
  writer: Writer,
  about: Pick<OverrideRow, 'kind' | 'target' | 'tenant_id' | 'enabled'>,
  nowMs: number,
  param: string,
): void => {
  if (writer === null) return
  const { kind, target, tenant_id, enabled } = about
  const standing = inForce(state, kind, target, tenant_id, nowMs)
  // The log of earlier builds may hold one that a tenant's key wrote: its tenant may take it back.
  const isOwn = standing !== null && standing.writer_tenant_id === writer
  if (kind === 'freeze' && tenant_id === null && (enabled || !isOwn)) {
    const message =
      'a freeze of everybody is written and taken back with the scope "*"; with "tenant_id" it is of one tenant'
    throw new Rejection('forbidden', message, 'tenant_id')
  }
  if (standing === null || standing.writer_tenant_id !== null) return
  const message =
    `the override ${standing.id} was imposed with the scope "*", ` +
    'and is changed or taken back with that scope alone'
  throw new Rejection('forbidden', message, param)
}

/**
 * Refuses one more row when the bound is reached, without counting rows that expire by themselves. Rows are counted
 * only when the bound may be reached.
 */
const requireRoom = (
  state: ControlReader,
  writer: Writer,
  { kind, target, tenant_id }: Pick<OverrideRow, 'kind' | 'target' | 'tenant_id'>,
  nowMs: number,
): void => {
  // Overrides that stop requests or changes must always be possible.
  if (kind === 'kill' || kind === 'freeze' || (kind === 'block' && writer === null)) return
  const overrides = state.table('overrides')
  if (overrides.size < MAX_OF_TENANT) return
  const [replaced] = overrides.findRows('deciding', overrideKey(kind, target, tenant_id))
  if (replaced !== undefined && isStanding(replaced) && replaced.writer_tenant_id === writer) return
  const staying = (rows: readonly OverrideRow[]) => rows.filter((row) => !isOver(row, nowMs)).length
  const requireBelow = (most: number, whose: string, rows: readonly OverrideRow[]) => {
    if (rows.length < most || staying(rows) < most) return
    throw new Rejection('conflict', `at most ${most} overrides ${whose} may stand; take some back first`)
  }
  const own = overrides.findRows('standing', writer ?? '')
  if (writer === null) {
    requireBelow(MAX_WITH_EVERY_SCOPE, 'that were written with the scope "*"', own)
    return
  }
  requireBelow(MAX_OF_TENANT, 'that were written by keys of one tenant', own)
  if (overrides.size < MAX_OF_TENANTS) return
  const ofTenants = [...overrides.rows()]
    .map(([, row]) => row)
    .filter((row) => isStanding(row) && row.writer_tenant_id !== null)
  requireBelow(MAX_OF_TENANTS, 'that were written without the scope "*"', ofTenants)
}

const writeOverride = (state: ControlReader, command: OverrideCommand & { do: 'write' }): EventRecord[] => {
  const { do: _, nowMs, writer_tenant_id: writer, ...given } = command
  const kind = overrideKindOf(given.kind)
  const { tenant_id, enabled, expires_at } = given
  if (tenant_id !== null && state.table('tenants').get(tenant_id) === undefined) {
    throw new Rejection('not_found', `no tenant has the id "${tenant_id}"`, 'tenant_id')
  }
  if (enabled && expires_at !== null && Date.parse(expires_at) <= nowMs) {
    throw new Rejection('invalid', '"expires_at" is past: such an override would never be in force', 'expires_at')
  }
  const target = targetOf(state, kind, given.target, enabled)
  if (enabled) requireOwnKey(state, target, tenant_id)
  const value = overrideValueOf(state, kind, given.value, enabled)
  const about = { kind, target, tenant_id, enabled }
  requireOwnToChange(state, writer, about, nowMs, 'target')
  if (enabled) requireRoom(state, writer, about, nowMs)
  return [{ type: 'override.written', data: { ...given, kind, target, value } }]
}

/**
 * Each command adds a row, also one that changes nothing: an order of the operator is recorded even when it was in
 * force already.
 */
export const decideOverride = (state: ControlReader, command: OverrideCommand): EventRecord[] => {
  if (command.do === 'write') return writeOverride(state, command)
  const { ids, provider_id, kill, reason, tenant_id, writer_tenant_id: writer, nowMs } = command
  if (state.table('providers').get(provider_id) === undefined)
    throw new Rejection('not_found', `no provider has the id "${provider_id}"`)
  const target = `provider:${provider_id}`
  const row = (id: string, tenantId: string | null): EventRecord => {
    const about = { kind: 'kill', target, tenant_id: tenantId, enabled: kill }
    requireOwnToChange(state, writer, about, nowMs, 'kill')
    return { type: 'override.written', data: { id, ...about, value: null, reason, expires_at: null } }
  }
  const own = inForce(state, 'kill', target, tenant_id, nowMs)
  // An override that was imposed on the tenant stays. It is no reason to skip the revival for all tenants.
  const isImposed = writer !== null && own?.writer_tenant_id === null
  const endsOwn = !kill && own !== null && !(isImposed && inForce(state, 'kill', target, null, nowMs) !== null)
  return endsOwn ? [row(ids[1], tenant_id), row(ids[0], null)] : [row(ids[0], null)]
}
