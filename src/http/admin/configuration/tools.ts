// `/admin/v1/tools`: the registry of tools, for every tenant (`owner` global) or of one.
import type { ControlReader } from '../../../domain/control.ts'
import { closed, Nullable } from '../../../domain/kernel/fields.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import {
  decideTool,
  TOOL_DEFAULTS,
  type ToolCommand,
  ToolFields,
  ToolKind,
  ToolName,
  ToolOwner,
  type ToolRow,
  toolView,
} from '../../../domain/registry/tool.ts'
import type { IdPrefix } from '../../../lib/crypto/ids.ts'
import { type Static, t } from '../../../lib/schema/schema.ts'
import type { Commit, LiveState } from '../../../state/port.ts'
import { GatewayError } from '../../../wire/errors.ts'
import {
  isSuperuser,
  ownerFor,
  type Principal,
  requireOwnerWrites,
  seesTenant,
  tenantFor,
  writesForAll,
} from '../../auth.ts'
import { ToolView } from '../answers/resources.ts'
import { Switch, statusOf } from '../body-fields.ts'
import { listed, Paging, tenantOfQuery } from '../list.ts'
import { type AdminCall, type AdminRoute, route } from '../route.ts'
import { rowAfter, write, writtenRow } from '../write.ts'

export interface ToolDeps {
  readonly live: Pick<LiveState, 'control'>
  readonly commit: Commit
  newId(prefix: IdPrefix): string
}

const READ = ['usage:read', 'providers:admin'] as const
const WRITE = ['providers:admin'] as const
const TenantId = t.Optional(Nullable(t.String({ minLength: 1, maxLength: 64 })))

const NewTool = closed(
  t.Composite([
    t.Object({
      name: ToolName,
      kind: t.Optional(ToolKind),
      owner: t.Optional(ToolOwner),
      tenant_id: TenantId,
      ...Switch,
    }),
    t.Partial(ToolFields),
  ]),
)
const EditedTool = closed(
  t.Composite([
    t.Object({
      name: t.Optional(ToolName),
      kind: t.Optional(ToolKind),
      owner: t.Optional(ToolOwner),
      tenant_id: TenantId,
      ...Switch,
    }),
    t.Partial(ToolFields),
  ]),
)

/** The tool of this id if the caller may see it; another tenant's does not exist. */
const visibleTool = (state: ControlReader, principal: Principal, id: string): ToolRow => {
  const row = state.table('tools').get(id)
  if (row === undefined || !seesTenant(principal, row.tenant_id)) {
    throw new Rejection('not_found', `no tool has the id "${id}"`)
  }
  return row
}

/**
 * The owner of a tool: global unless a tenant is given. Throws 400 where the two fields contradict each other, or the
 * tenant is missing.
 */
const ownerOf = (
  principal: Principal,
  { owner, tenant_id }: Static<typeof NewTool>,
  state: ControlReader,
): string | null => {
  if (owner === 'global' && typeof tenant_id === 'string')
    throw new GatewayError('invalid_request', '"tenant_id" is for tools with the owner "tenant"', {
      param: 'tenant_id',
    })
  if (owner !== 'tenant' && typeof tenant_id !== 'string') {
    // A key that may not write global things means its own tenant, unless it names another owner.
    const isOwn = owner === undefined && tenant_id === undefined && !writesForAll(principal, state)
    return ownerFor(principal, isOwn ? undefined : null, state)
  }
  if (typeof tenant_id !== 'string' && isSuperuser(principal))
    throw new GatewayError('invalid_request', '"tenant_id" is required for the owner "tenant"', { param: 'tenant_id' })
  return tenantFor(principal, tenant_id)
}

const listTools = ({ live }: ToolDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/tools',
    scopes: READ,
    summary: 'List tools: global ones and those of the tenants that the key sees',
    rows: 'tools',
    query: t.Object({ tenant_id: t.Optional(t.String()), ...Paging }),
    answer: ToolView,
    handle({ principal, query }) {
      const tenantId = tenantOfQuery(live.control, principal, query.tenant_id)
      const rows = [...live.control.table('tools').rows()]
        .map(([, row]) => row)
        .filter((row) => (tenantId === undefined ? seesTenant(principal, row.tenant_id) : row.tenant_id === tenantId))
      return { body: listed('tools', rows, query, toolView) }
    },
  })

const getTool = ({ live }: ToolDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/tools/:id',
    scopes: READ,
    summary: 'One tool',
    answer: ToolView,
    handle: ({ principal, params }) => ({ body: toolView(visibleTool(live.control, principal, params.id)) }),
  })

const registerTool = ({ live, commit, newId }: ToolDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/tools',
    scopes: WRITE,
    summary: 'Register a tool',
    body: NewTool,
    dropped: ['executable'],
    status: 201,
    answer: ToolView,
    async handle(call) {
      const { name, kind = 'function', owner: _, tenant_id: __, status, enabled, ...fields } = call.body
      const command = {
        ...TOOL_DEFAULTS,
        ...fields,
        do: 'register',
        id: newId('tool'),
        name,
        kind,
        tenant_id: ownerOf(call.principal, call.body, live.control),
        enabled: statusOf({ status, enabled }) !== 'disabled',
        managed_by: 'api',
      } as const
      const result = await write(
        commit,
        call,
        () => undefined,
        (state) => decideTool(state, command),
      )
      return { body: toolView(writtenRow(result, 'tools')), revision: result.revision }
    },
  })

/** Commits a command on the tool of the path, if the caller sees it. */
const changed = async <Body>(
  { commit }: ToolDeps,
  call: AdminCall<Body, unknown, 'id'>,
  command: (row: ToolRow) => ToolCommand,
) => {
  const id = call.params.id
  let found: ToolRow | undefined
  const result = await write(
    commit,
    call,
    (state) => state.table('tools').get(id),
    (state) => {
      found = visibleTool(state, call.principal, id)
      requireOwnerWrites(call.principal, state, found.tenant_id)
      return decideTool(state, command(found))
    },
  )
  return { row: rowAfter(result, 'tools') ?? found, revision: result.revision }
}

const editTool = (deps: ToolDeps): AdminRoute =>
  route({
    method: 'PUT',
    path: '/tools/:id',
    scopes: WRITE,
    summary: 'Change a tool; what is left out stays as it is',
    body: EditedTool,
    dropped: ['executable'],
    answer: ToolView,
    async handle(call) {
      const { owner, status, enabled, ...fields } = call.body
      const isEnabled = statusOf({ status, enabled })
      const { row, revision } = await changed(deps, call, (row) => {
        if (owner !== undefined && (owner === 'global') !== (row.tenant_id === null))
          throw new Rejection(
            'invalid',
            'the owner of a tool cannot be changed; delete it and register another',
            'owner',
          )
        const switched = isEnabled === undefined ? {} : { enabled: isEnabled === 'active' }
        return { do: 'change', id: row.id, managed_by: 'api', ...fields, ...switched }
      })
      return { body: toolView(row!), revision }
    },
  })

const switchTool = (deps: ToolDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/tools/:id/enabled',
    scopes: WRITE,
    summary: 'Enable or disable a tool',
    body: closed(t.Object({ enabled: t.Boolean() })),
    answer: ToolView,
    async handle(call) {
      const { enabled } = call.body
      const { row, revision } = await changed(deps, call, ({ id }) => ({
        do: 'change',
        id,
        managed_by: 'api',
        enabled,
      }))
      return { body: toolView(row!), revision }
    },
  })

const deleteTool = (deps: ToolDeps): AdminRoute =>
  route({
    method: 'DELETE',
    path: '/tools/:id',
    scopes: WRITE,
    summary: 'Delete a tool; the history of its invocations stays',
    async handle(call) {
      const { revision } = await changed(deps, call, ({ id }) => ({ do: 'delete', id }))
      return { body: { deleted: true, id: call.params.id }, revision }
    },
  })

export const toolRoutes = (deps: ToolDeps): AdminRoute[] => [
  listTools(deps),
  getTool(deps),
  registerTool(deps),
  editTool(deps),
  switchTool(deps),
  deleteTool(deps),
]
