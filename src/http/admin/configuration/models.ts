// `/admin/v1/models`: the registry. Fields that a write omits are filled from known facts about the model.
import type { ControlReader } from '../../../domain/control.ts'
import { changedFields, closed } from '../../../domain/kernel/fields.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import {
  CAPABILITIES,
  DEFAULT_PRIORITY,
  decideModel,
  ModelFields,
  ModelName,
  type ModelRow,
} from '../../../domain/registry/model.ts'
import type { ProviderRow } from '../../../domain/registry/provider.ts'
import type { IdPrefix } from '../../../lib/crypto/ids.ts'
import { type Static, t } from '../../../lib/schema/schema.ts'
import type { Commit, LiveState } from '../../../state/port.ts'
import { factsBeside } from '../../../upkeep/models/model-facts.ts'
import type { ModelCatalogue } from '../../../upkeep/models/model-listing.ts'
import { ModelView } from '../answers/resources.ts'
import { Switch, statusOf } from '../body-fields.ts'
import { listed, Paging, providerOfQuery } from '../list.ts'
import { type AdminCall, type AdminRoute, route } from '../route.ts'
import { rowAfter, write, writtenRow } from '../write.ts'

export interface ModelDeps {
  readonly live: Pick<LiveState, 'control'>
  readonly commit: Commit
  newId(prefix: IdPrefix): string

  readonly modelCatalogue: Pick<ModelCatalogue, 'factsOf'>
}

const READ = ['usage:read', 'providers:admin'] as const
const WRITE = ['providers:admin'] as const
const DROPPED = ['capability_source', 'provider'] as const

const { capability_source: _, capabilities: __, ...settable } = ModelFields.properties
const Writable = {
  ...t.Partial(t.Object(settable)).properties,
  capabilities: t.Optional(
    t.Array(t.Union(CAPABILITIES.map((name) => t.Literal(name))), { maxItems: CAPABILITIES.length }),
  ),
  ...Switch,
}
const ProviderId = t.String({ minLength: 1, maxLength: 64 })
const NewModel = closed(t.Object({ name: ModelName, provider_id: ProviderId, ...Writable }))
const EditedModel = closed(t.Object({ name: t.Optional(ModelName), provider_id: t.Optional(ProviderId), ...Writable }))

/** Fields that are filled when a write omits them. */
const FILLED = [
  'context_window',
  'max_output_tokens',
  'input_cost_per_million',
  'output_cost_per_million',
  'cached_input_cost_per_million',
  'capabilities',
] as const

const modelOf = (state: ControlReader, id: string): ModelRow => {
  const row = state.table('models').get(id)
  if (row === undefined) throw new Rejection('not_found', `no model has the id "${id}"`)
  return row
}

const viewOf = (state: ControlReader, row: ModelRow) => ({
  ...row,
  price_tiers: row.price_tiers ?? null,
  provider: state.table('providers').get(row.provider_id)?.name ?? null,
})

const listModels = ({ live }: ModelDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/models',
    scopes: READ,
    summary: 'List the registry, disabled models too; `provider` is a name or an id',
    rows: 'models',
    query: t.Object({ provider: t.Optional(t.String()), ...Paging }),
    answer: ModelView,
    handle({ query }) {
      const { control } = live
      const wanted = providerOfQuery(control, query.provider)
      const rows = [...control.table('models').rows()].map(([, row]) => row)
      const kept = wanted === undefined ? rows : rows.filter((row) => row.provider_id === wanted)
      return { body: listed('models', kept, query, (row) => viewOf(control, row)) }
    },
  })

const getModel = ({ live }: ModelDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/models/:id',
    scopes: READ,
    summary: 'One model of the registry',
    answer: ModelView,
    handle: ({ params }) => ({ body: viewOf(live.control, modelOf(live.control, params.id)) }),
  })

/** A row as of the log's end: a model that this instance has not folded yet may have been created on another. */
const settled = async <Row>(commit: Commit, call: AdminCall, read: (state: ControlReader) => Row): Promise<Row> => {
  let row: Row | undefined
  await commit({
    actor: call.principal.actor,
    decide(state) {
      row = read(state)
      return []
    },
  })
  return row!
}

/** Every field of a full write: the sent value, else the known one, else the default. */
const wholeModel = async (
  body: Static<typeof EditedModel>,
  name: string,
  provider: ProviderRow,
  deps: ModelDeps,
): Promise<ModelFields> => {
  const { name: _, provider_id: __, status: ___, enabled: ____, ...given } = body
  const upstreamModel = given.upstream_model ?? name
  const facts = FILLED.some((field) => given[field] === undefined)
    ? await deps.modelCatalogue.factsOf(provider, upstreamModel)
    : null
  const source = given.capabilities === undefined ? (facts?.capability_source ?? 'kind') : 'operator'
  return {
    priority: DEFAULT_PRIORITY,
    aliases: [],
    context_window: null,
    max_output_tokens: null,
    input_cost_per_million: null,
    output_cost_per_million: null,
    cached_input_cost_per_million: null,
    capabilities: [],
    price_tiers: null,
    ...factsBeside(given, facts),
    ...given,
    upstream_model: upstreamModel,
    capability_source: source,
  }
}

const createModel = (deps: ModelDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/models',
    forAll: true,
    scopes: WRITE,
    summary: 'Register a model',
    body: NewModel,
    dropped: DROPPED,
    status: 201,
    answer: ModelView,
    async handle(call) {
      const { name, provider_id } = call.body
      const find = (state: ControlReader): ProviderRow => {
        const row = state.table('providers').get(provider_id)
        if (row === undefined)
          throw new Rejection('not_found', `no provider has the id "${provider_id}"`, 'provider_id')
        return row
      }
      const provider = deps.live.control.table('providers').get(provider_id) ?? (await settled(deps.commit, call, find))
      const fields = await wholeModel(call.body, name, provider, deps)
      const status = statusOf(call.body) ?? 'active'
      const command = {
        do: 'create',
        id: deps.newId('mod'),
        name,
        provider_id,
        status,
        managed_by: 'api',
        ...fields,
      } as const
      const result = await write(
        deps.commit,
        call,
        () => undefined,
        (state) => decideModel(state, command),
      )
      return { body: viewOf(deps.live.control, writtenRow(result, 'models')), revision: result.revision }
    },
  })

/** Unchanged capabilities do not become the operator's: a GET, edit, PUT keeps their source. */
const keepSource = (row: ModelRow | undefined, fields: Partial<ModelFields>): Partial<ModelFields> => {
  if (fields.capabilities === undefined) return fields
  const same =
    row !== undefined && changedFields<ModelRow>(row, { capabilities: fields.capabilities }).capabilities === undefined
  return { ...fields, capability_source: same ? row.capability_source : (fields.capability_source ?? 'operator') }
}

const saveModel = (method: 'PUT' | 'PATCH', deps: ModelDeps): AdminRoute =>
  route({
    method,
    path: '/models/:id',
    forAll: true,
    scopes: WRITE,
    summary: method === 'PUT' ? 'Replace a model, all but its name and provider' : 'Change some fields of a model',
    body: EditedModel,
    dropped: DROPPED,
    answer: ModelView,
    async handle(call) {
      const id = call.params.id
      const { control } = deps.live
      const row: ModelRow =
        control.table('models').get(id) ?? (await settled(deps.commit, call, (state) => modelOf(state, id)))
      const provider = control.table('providers').get(row.provider_id)
      const { status: _, enabled: __, name, provider_id, ...given } = call.body
      const fields: Partial<ModelFields> =
        method === 'PATCH' || provider === undefined ? given : await wholeModel(call.body, row.name, provider, deps)
      const status = statusOf(call.body) ?? (method === 'PUT' ? 'active' : undefined)
      const result = await write(
        deps.commit,
        call,
        (state) => state.table('models').get(id),
        (state) => {
          const kept = keepSource(state.table('models').get(id), fields)
          return decideModel(state, { do: 'change', id, name, provider_id, status, managed_by: 'api', ...kept })
        },
      )
      return { body: viewOf(control, rowAfter(result, 'models') ?? modelOf(control, id)), revision: result.revision }
    },
  })

const deleteModel = ({ commit }: ModelDeps): AdminRoute =>
  route({
    method: 'DELETE',
    path: '/models/:id',
    forAll: true,
    scopes: WRITE,
    summary: 'Delete a model of the registry',
    async handle(call) {
      const id = call.params.id
      const result = await write(
        commit,
        call,
        (state) => state.table('models').get(id),
        (state) => decideModel(state, { do: 'delete', id }),
      )
      return { body: { deleted: true, id }, revision: result.revision }
    },
  })

export const modelRoutes = (deps: ModelDeps): AdminRoute[] => [
  listModels(deps),
  getModel(deps),
  createModel(deps),
  saveModel('PUT', deps),
  saveModel('PATCH', deps),
  deleteModel(deps),
]
