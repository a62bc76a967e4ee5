// Tool policies: bounds of a run of tools. Names and fields of the events are stored for ever.
import { type Static, t } from '../../lib/schema/schema.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changeAction, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import type { EventRecord } from '../kernel/decision.ts'
import { changedFields, closed, Id, ManagedBy, Nullable, opened } from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'

export const ToolPolicyName = t.String({ minLength: 1, maxLength: 128, pattern: '^\\S(?:.*\\S)?$' })

/**
 * The fields of a policy that clients may send, beside its name and whether it is enabled. Bounds are whole numbers of
 * any size: they are clamped.
 */
export const ToolPolicyFields = closed(
  t.Object({
    /** `manual`: the client runs the tool calls of the model. `automatic`: the gateway does, where it may. */
    mode: t.Union([t.Literal('manual'), t.Literal('automatic')]),
    max_steps: t.Integer(),
    max_tool_calls: t.Integer(),
    max_run_seconds: t.Integer(),
  }),
)
export type ToolPolicyFields = Static<typeof ToolPolicyFields>

export const ToolPolicyCreated = opened(
  t.Composite([
    t.Object({
      id: Id,
      tenant_id: Nullable(Id),
      name: ToolPolicyName,
      enabled: t.Boolean(),
      managed_by: ManagedBy,
    }),
    ToolPolicyFields,
  ]),
)
/** Only the fields that changed. */
export const ToolPolicyChanged = opened(
  t.Composite([
    t.Object({ id: Id, enabled: t.Optional(t.Boolean()), managed_by: t.Optional(ManagedBy) }),
    t.Partial(ToolPolicyFields),
  ]),
)
export const ToolPolicyDeleted = t.Object({ id: Id })

export interface ToolPolicyRow extends Stamps, Readonly<ToolPolicyFields> {
  readonly id: string
  /** Null: global. */
  readonly tenant_id: string | null
  readonly name: string
  readonly enabled: boolean
  readonly managed_by: ManagedBy
}

/** Used where there is no policy, and for the fields that a policy leaves out. */
export const TOOL_POLICY_DEFAULTS: ToolPolicyFields = {
  mode: 'manual',
  max_steps: 5,
  max_tool_calls: 16,
  max_run_seconds: 60,
}

/** The least and the greatest value of each bound. */
const BOUNDS = { max_steps: [1, 10], max_tool_calls: [1, 64], max_run_seconds: [1, 600] } as const

const clamped = (fields: ToolPolicyFields): ToolPolicyFields => {
  const bounds: Record<string, number> = {}
  for (const [name, [least, most]] of Object.entries(BOUNDS))
    bounds[name] = Math.min(most, Math.max(least, fields[name as keyof typeof BOUNDS]))
  return { ...fields, ...bounds }
}

/** Index key of a name within a tenant (null: global). Names are compared without case. */
export const toolPolicyKey = (tenantId: string | null, name: string): string =>
  `${tenantId ?? ''}/${name.toLowerCase()}`

const rows = changesOf<ToolPolicyRow>('tool_policies')
const subject = (data: { id: string }): string => data.id
const shared = { since: 3, resource: 'tool_policy', subject } as const

export const toolPolicy: Aggregate<ToolPolicyRow, ControlReader> = {
  table: 'tool_policies',
  indexes: { tenant: (row) => row.tenant_id ?? '', name: (row) => toolPolicyKey(row.tenant_id, row.name) },
  events: {
    'tool_policy.created': eventType({ schema: ToolPolicyCreated, action: 'create', ...shared }),
    'tool_policy.changed': eventType({ schema: ToolPolicyChanged, action: changeAction, ...shared }),
    'tool_policy.deleted': eventType({ schema: ToolPolicyDeleted, action: 'delete', ...shared }),
  },
  evolve(state, { type, data }, meta) {
    const id = data.id as string
    const before = state.table('tool_policies').get(id)
    if (type === 'tool_policy.created')
      return before === undefined ? rows.created(id, data as Static<typeof ToolPolicyCreated>, meta) : []
    if (type === 'tool_policy.deleted') return rows.removed(id, before)
    return rows.changed(id, before, data as Static<typeof ToolPolicyChanged>, meta)
  },
}

export type ToolPolicyCommand =
  | ({
      /** Replaces the policy of that name; `id` is used only when there is none. */
      do: 'upsert'
      id: string
      tenant_id: string | null
      name: string
      /** Absent: a new policy is enabled, an existing one stays as it is. */
      enabled?: boolean
      managed_by: ManagedBy
    } & ToolPolicyFields)
  | { do: 'delete'; id: string }

export const decideToolPolicy = (state: ControlReader, command: ToolPolicyCommand): EventRecord[] => {
  const policies = state.table('tool_policies')
  if (command.do === 'delete') {
    if (policies.get(command.id) === undefined)
      throw new Rejection('not_found', `no tool policy has the id "${command.id}"`)
    return [{ type: 'tool_policy.deleted', data: { id: command.id } }]
  }
  const { do: _, id, tenant_id, name, enabled, managed_by, ...given } = command
  if (tenant_id !== null && state.table('tenants').get(tenant_id) === undefined)
    throw new Rejection('not_found', `no tenant has the id "${tenant_id}"`, 'tenant_id')
  const fields = clamped(given)
  const [existing] = policies.find('name', toolPolicyKey(tenant_id, name))
  if (existing === undefined) {
    const data = { id, tenant_id, name, enabled: enabled ?? true, managed_by, ...fields }
    return [{ type: 'tool_policy.created', data }]
  }
  const row = policies.get(existing)!
  const changed = changedFields<ToolPolicyRow>(row, { ...fields, enabled })
  if (Object.keys(changed).length === 0) return []
  const owner = row.managed_by === managed_by ? {} : { managed_by }
  return [{ type: 'tool_policy.changed', data: { id: row.id, ...changed, ...owner } }]
}
