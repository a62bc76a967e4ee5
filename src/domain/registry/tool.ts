// Tools: functions that models may call, registered once for all applications. Names and fields of the events are
// stored for ever.

import { compileSchema, draftOf, requireKnownKeywords, SchemaError } from '../../lib/json-schema/json-schema.ts'
import { type Static, t } from '../../lib/schema/schema.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import type { EventRecord } from '../kernel/decision.ts'
import { changedFields, closed, depthOf, Id, ManagedBy, Nullable, opened, requireSmall } from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'

/** `function`: the client runs it. `builtin`: a handler of the gateway runs it. */
export const TOOL_KINDS = ['function', 'builtin'] as const
export const ToolKind = t.Union(TOOL_KINDS.map((kind) => t.Literal(kind)))
/** Names of the handlers of this build for tools of the kind `builtin`: the handler of that name executes the tool. */
const HANDLERS: ReadonlySet<string> = new Set()

/** Name of a declaration in a request. */
export const ToolName = t.String({
  minLength: 1,
  maxLength: 128,
  pattern: '^[A-Za-z0-9_.:-]+$',
  description: 'letters, digits, dots, colons, hyphens and underscores',
})
const Safety = t.Union([t.Literal('safe'), t.Literal('sensitive'), t.Literal('dangerous')])
/** `global`: for every tenant. */
export const ToolOwner = t.Union([t.Literal('global'), t.Literal('tenant')])

/** The fields of a tool that can be changed, besides whether it is enabled. */
export const ToolFields = closed(
  t.Object({
    description: t.String({ maxLength: 4_096 }),
    /** Only `safe` tools run automatically. */
    safety: Safety,
    /** A JSON Schema, 2020-12 or the draft that its `$schema` names. */
    parameters: t.Record(t.String(), t.Unknown()),
  }),
)
export type ToolFields = Static<typeof ToolFields>

export const ToolRegistered = opened(
  t.Composite([
    t.Object({
      id: Id,
      name: ToolName,
      kind: ToolKind,
      /** Null: for every tenant. */
      tenant_id: Nullable(Id),
      enabled: t.Boolean(),
      managed_by: ManagedBy,
    }),
    ToolFields,
  ]),
)
/** Only the fields that changed. */
export const ToolChanged = opened(
  t.Composite([t.Object({ id: Id, managed_by: t.Optional(ManagedBy) }), t.Partial(ToolFields)]),
)
export const ToolSwitched = opened(t.Object({ id: Id, managed_by: t.Optional(ManagedBy) }))
export const ToolDeleted = t.Object({ id: Id })

export interface ToolRow extends Stamps, Readonly<ToolFields> {
  readonly id: string
  readonly name: string
  readonly kind: string
  readonly tenant_id: string | null
  readonly enabled: boolean
  readonly managed_by: ManagedBy
}

/** Defaults of the fields that a tool leaves out. */
export const TOOL_DEFAULTS = {
  description: '',
  safety: 'safe',
  parameters: { type: 'object', properties: {} },
} as const

/** Index key of a name within a tenant (null: global). Names are compared without case. */
export const toolKey = (tenantId: string | null, name: string): string => `${tenantId ?? ''}/${name.toLowerCase()}`

const rows = changesOf<ToolRow>('tools')
const subject = (data: { id: string }): string => data.id
const shared = { since: 3, resource: 'tool', subject } as const

export const tool: Aggregate<ToolRow, ControlReader> = {
  table: 'tools',
  indexes: { tenant: (row) => row.tenant_id ?? '', name: (row) => toolKey(row.tenant_id, row.name) },
  events: {
    'tool.registered': eventType({ schema: ToolRegistered, action: 'create', ...shared }),
    'tool.changed': eventType({ schema: ToolChanged, action: 'update', ...shared }),
    'tool.enabled': eventType({ schema: ToolSwitched, action: 'enable', ...shared }),
    'tool.disabled': eventType({ schema: ToolSwitched, action: 'disable', ...shared }),
    'tool.deleted': eventType({ schema: ToolDeleted, action: 'delete', ...shared }),
  },
  evolve(state, { type, data }, meta) {
    const id = data.id as string
    const before = state.table('tools').get(id)
    if (type === 'tool.registered')
      return before === undefined ? rows.created(id, data as Static<typeof ToolRegistered>, meta) : []
    if (type === 'tool.deleted') return rows.removed(id, before)
    const enabled = type === 'tool.changed' ? {} : { enabled: type === 'tool.enabled' }
    return rows.changed(id, before, { ...(data as Static<typeof ToolChanged>), ...enabled }, meta)
  },
}

export type ToolCommand =
  | ({ do: 'register' } & Static<typeof ToolRegistered> & ToolFields)
  /**
   * Absent fields stay as they are; fields that cannot change are accepted only so that another value can be refused.
   */
  | ({
      do: 'change'
      id: string
      name?: string
      kind?: string
      tenant_id?: string | null
      enabled?: boolean
      managed_by: ManagedBy
    } & Partial<ToolFields>)
  | { do: 'delete'; id: string }

/** Bound of the depth within a decision, with room for its frame. */
const MAX_DEPTH = 24

/** `#/properties/city/type` -> `parameters.properties.city.type` */
const paramOf = (pointer: string | null): string =>
  pointer === null || !pointer.startsWith('#/')
    ? 'parameters'
    : `parameters.${pointer
        .slice(2)
        .split('/')
        .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
        .join('.')}`

/**
 * Throws 400 with the place in a schema that is unusable: an unknown keyword, a wrong value, or a reference without a
 * target.
 */
const requireUsable = (parameters: Readonly<Record<string, unknown>>): void => {
  if (depthOf(parameters, MAX_DEPTH + 1) > MAX_DEPTH)
    throw new Rejection('invalid', `"parameters" may be at most ${MAX_DEPTH} levels deep`, 'parameters')
  const draft = draftOf(parameters.$schema)
  if (draft === null) {
    const param = 'parameters.$schema'
    throw new Rejection('invalid', `"${param}" must be that of JSON Schema 2020-12 or draft-07`, param)
  }
  if (parameters.type !== undefined && parameters.type !== 'object')
    throw new Rejection('invalid', '"parameters.type" must be "object": arguments of a tool are one', 'parameters.type')
  try {
    requireKnownKeywords(parameters, draft)
    compileSchema(parameters, draft)
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error
    throw new Rejection('invalid', `"parameters" cannot be used: ${error.message}`, paramOf(error.pointer))
  }
}

/** A builtin tool has the handler of its own name. */
const requireHandler = (kind: string, name: string): void => {
  if (kind !== 'builtin' || HANDLERS.has(name)) return
  const handlers = HANDLERS.size === 0 ? 'this gateway has none yet' : `the handlers are ${[...HANDLERS].join(', ')}`
  throw new Rejection('invalid', `no built-in handler is called "${name}": ${handlers}`, 'kind')
}

/** Throws 400 for fields that are invalid for every tool. */
export const requireSoundTool = (data: Static<typeof ToolRegistered>): void => {
  requireHandler(data.kind, data.name)
  requireUsable(data.parameters)
  requireSmall('the tool', data)
}

const register = (state: ControlReader, command: ToolCommand & { do: 'register' }): EventRecord[] => {
  const { do: _, id, tenant_id, name, kind, managed_by, ...fields } = command
  const data = { id, tenant_id, name, kind, managed_by, ...fields }
  if (tenant_id !== null && state.table('tenants').get(tenant_id) === undefined)
    throw new Rejection('not_found', `no tenant has the id "${tenant_id}"`, 'tenant_id')
  if (state.table('tools').find('name', toolKey(tenant_id, name)).length > 0)
    throw new Rejection('conflict', `a tool named "${name}" exists already`, 'name')
  requireSoundTool(data)
  return [{ type: 'tool.registered', data }]
}

const change = (row: ToolRow, command: ToolCommand & { do: 'change' }): EventRecord[] => {
  const { do: _, id, name, kind, tenant_id, enabled, managed_by, ...wanted } = command
  for (const [field, value] of Object.entries({ name, kind, tenant_id })) {
    if (value === undefined || value === row[field as 'name' | 'kind' | 'tenant_id']) continue
    throw new Rejection('invalid', `the ${field} of a tool cannot be changed; delete it and register another`, field)
  }
  const changed = changedFields<ToolRow>(row, wanted)
  if (changed.parameters !== undefined) requireUsable(changed.parameters)
  requireSmall('the tool', { ...row, ...changed }, changed)
  const owner = row.managed_by === managed_by ? {} : { managed_by }
  const events: EventRecord[] = []
  if (Object.keys(changed).length > 0) events.push({ type: 'tool.changed', data: { id, ...changed, ...owner } })
  if (enabled !== undefined && enabled !== row.enabled)
    events.push({ type: enabled ? 'tool.enabled' : 'tool.disabled', data: { id, ...owner } })
  return events
}

export const decideTool = (state: ControlReader, command: ToolCommand): EventRecord[] => {
  if (command.do === 'register') return register(state, command)
  const row = state.table('tools').get(command.id)
  if (row === undefined) throw new Rejection('not_found', `no tool has the id "${command.id}"`)
  return command.do === 'delete' ? [{ type: 'tool.deleted', data: { id: row.id } }] : change(row, command)
}

/** A tool as the API shows it. Its kind alone determines whether the gateway executes it. */
export const toolView = ({ created_at, updated_at, revision, ...row }: ToolRow) => ({
  ...row,
  owner: row.tenant_id === null ? 'global' : 'tenant',
  executable: row.kind === 'builtin' && HANDLERS.has(row.name),
  created_at,
  updated_at,
  revision,
})
