// `/admin/v1/providers`. Secrets come in by the credential routes and never go out again.
import { closed } from '../../../domain/kernel/fields.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import {
  decideProvider,
  PROVIDER_DEFAULTS,
  ProviderFields,
  ProviderName,
  type ProviderRow,
} from '../../../domain/registry/provider.ts'
import { shownKind, testsOf } from '../../../domain/registry/provider-test.ts'
import { withheldSecret } from '../../../domain/registry/secret-binding.ts'
import { urlRefusal } from '../../../lib/http-client/http-client.ts'
import { type Static, t } from '../../../lib/schema/schema.ts'
import { envProblem, type KindTable, providerProblem, usualBindings } from '../../../upkeep/models/kind-table.ts'
import { GatewayError } from '../../../wire/errors.ts'
import { isSuperuser, type Principal } from '../../auth.ts'
import { credentialView, type ProviderDeps, providerOf } from '../answers/provider-view.ts'
import { deletion, ProviderView } from '../answers/resources.ts'
import { Switch, statusOf } from '../body-fields.ts'
import { listed, Paging } from '../list.ts'
import { type AdminCall, type AdminRoute, route } from '../route.ts'
import { rowAfter, write, writtenRow } from '../write.ts'
import { credentialRoutes } from './credentials.ts'
import { detectionRoutes } from './detect.ts'
import { providerTestRoutes } from './provider-tests.ts'
import { syncRoutes } from './sync-models.ts'

const READ = ['usage:read', 'providers:admin'] as const
const WRITE = ['providers:admin'] as const
/** `api_key` is dropped unread: secrets have a route of their own. */
const DROPPED = [
  ...['has_credential', 'credential', 'secret_withheld', 'adapter_ready', 'killed', 'health', 'last_test'],
  'api_key',
] as const

const Writable = { ...t.Partial(ProviderFields).properties, ...Switch }
const NewProvider = closed(t.Object({ name: ProviderName, ...Writable, kind: ProviderFields.properties.kind }))
const ReplacedProvider = closed(
  t.Object({ name: t.Optional(ProviderName), ...Writable, kind: ProviderFields.properties.kind }),
)
const PatchedProvider = closed(t.Object({ name: t.Optional(ProviderName), ...Writable }))

/** `killed`: globally, or for the caller's tenant. */
const viewOf = (provider: ProviderRow, { tenantId }: Principal, deps: ProviderDeps) => {
  const { credential: _, env_bound_to: __, ...row } = provider
  const killed = deps.steering.overrides(tenantId, deps.nowMs()).killedProviderIds.has(provider.id)
  const health = deps.healthOf(provider.id)
  const last_test = lastTest(provider, deps)
  const secret = { ...credentialView(provider), secret_withheld: withheldSecret(provider, deps.hasVariable) }
  return { ...row, ...secret, adapter_ready: deps.adapterReady(provider), killed, health, last_test }
}

const KEEP = 'x-gateway-keep-credential'

/** `X-Gateway-Keep-Credential`: whether the secrets go along to another kind or address, which takes `*`. */
const keepsCredential = ({ request, principal }: AdminCall): boolean => {
  const text = request.headers.get(KEEP)?.trim().toLowerCase() ?? 'false'
  if (text !== 'true' && text !== 'false')
    throw new GatewayError('invalid_request', `"${KEEP}" must be true or false`, { param: 'X-Gateway-Keep-Credential' })
  if (text === 'true' && !isSuperuser(principal))
    throw new GatewayError('permission_error', `"${KEEP}" needs a key with the scope "*"`, {
      param: 'X-Gateway-Keep-Credential',
    })
  return text === 'true'
}

/** Without `*`, a writer gives variables of the environment only to the addresses of their kinds. */
const givenBy = ({ principal }: AdminCall, { kindTable }: ProviderDeps) =>
  isSuperuser(principal) ? {} : { usualBindings: usualBindings(kindTable) }

/** Result of the provider's last test; null when there was none. */
const lastTest = ({ id }: ProviderRow, { live }: ProviderDeps) => {
  const row = testsOf(live.control, id).find((tested) => shownKind(tested) === 'test')
  if (row === undefined) return null
  const { success, created_at, results } = row
  const checks = results.map(({ check, status, latency_ms }) => ({ check, status, latency_ms }))
  return { id: row.id, success, created_at, results: checks }
}

/** The canonical kind; throws 400 with the list for an unknown one. */
const kindOf = (text: string, kinds: KindTable) => {
  const kind = kinds.resolve(text)
  if (kind !== null) return kind
  throw new GatewayError('invalid_request', `unknown kind "${text}"; the kinds are ${kinds.names.join(', ')}`, {
    param: 'kind',
  })
}

/** Every field of a full write: the sent value, else the default. */
const wholeProvider = (body: Static<typeof ReplacedProvider>, kinds: KindTable): ProviderFields => {
  const { name: _, status: __, enabled: ___, ...given } = body
  const kind = kindOf(given.kind, kinds)
  return {
    ...PROVIDER_DEFAULTS,
    ...given,
    kind: kind.kind,
    base_url: given.base_url ?? kind.defaultBaseUrl,
  }
}

const listProviders = (deps: ProviderDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/providers',
    scopes: READ,
    summary: 'List providers with health and whether they are ready',
    rows: 'providers',
    query: t.Object(Paging),
    answer: ProviderView,
    handle: ({ query, principal }) => ({
      body: listed(
        'providers',
        [...deps.live.control.table('providers').rows()].map(([, row]) => row),
        query,
        (row) => viewOf(row, principal, deps),
      ),
    }),
  })

const getProvider = (deps: ProviderDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/providers/:id',
    scopes: READ,
    summary: 'One provider',
    answer: ProviderView,
    handle: ({ params, principal }) => ({ body: viewOf(providerOf(deps.live.control, params.id), principal, deps) }),
  })

const createProvider = (deps: ProviderDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/providers',
    forAll: true,
    scopes: WRITE,
    summary: 'Create a provider',
    body: NewProvider,
    dropped: DROPPED,
    status: 201,
    answer: ProviderView,
    async handle(call) {
      const fields = wholeProvider(call.body, deps.kindTable)
      const status = statusOf(call.body) ?? 'active'
      const data = { id: deps.newId('prov'), name: call.body.name, status, managed_by: 'api', ...fields } as const
      const result = await write(
        deps.commit,
        call,
        () => undefined,
        (state) => {
          requireValid(fields, deps.kindTable)
          requireEnv(fields, deps.kindTable)
          requireReachable(data.base_url, deps)
          return decideProvider(state, { do: 'create', ...data, ...givenBy(call, deps) })
        },
      )
      return { body: viewOf(writtenRow(result, 'providers'), call.principal, deps), revision: result.revision }
    },
  })

const saveProvider = (method: 'PUT' | 'PATCH', deps: ProviderDeps): AdminRoute =>
  route({
    method,
    path: '/providers/:id',
    forAll: true,
    scopes: WRITE,
    summary:
      method === 'PUT' ? 'Replace a provider, all but its name' : 'Change some fields of a provider, or switch it',
    body: method === 'PUT' ? ReplacedProvider : PatchedProvider,
    dropped: DROPPED,
    answer: ProviderView,
    async handle(call) {
      const id = call.params.id
      const { status: _, enabled: __, name, ...given } = call.body as Static<typeof PatchedProvider>
      const fields =
        method === 'PUT'
          ? wholeProvider(call.body as Static<typeof ReplacedProvider>, deps.kindTable)
          : { ...given, ...(given.kind === undefined ? {} : { kind: kindOf(given.kind, deps.kindTable).kind }) }
      const status = statusOf(call.body) ?? (method === 'PUT' ? 'active' : undefined)
      const secrets = { full: method === 'PUT', keepsCredential: keepsCredential(call), ...givenBy(call, deps) }
      const result = await write(
        deps.commit,
        call,
        (state) => state.table('providers').get(id),
        (state) => {
          const row = providerOf(state, id)
          if (VALIDATED.some((field) => fields[field] !== undefined))
            requireValid({ ...row, ...fields }, deps.kindTable)
          if (fields.api_key_env !== row.api_key_env) requireEnv(fields, deps.kindTable)
          if (fields.base_url !== row.base_url) requireReachable(fields.base_url, deps)
          return decideProvider(state, { do: 'change', id, name, status, managed_by: 'api', ...secrets, ...fields })
        },
      )
      const row = rowAfter(result, 'providers') ?? providerOf(deps.live.control, id)
      return { body: viewOf(row, call.principal, deps), revision: result.revision }
    },
  })

/**
 * Rejects an address that this installation never connects to now, rather than at the first request. Host names pass:
 * only their resolution could show it.
 */
const requireReachable = (text: string | null | undefined, { allowPrivate }: ProviderDeps): void => {
  const url = text == null ? null : URL.parse(text)
  const refusal = url === null ? null : urlRefusal(url, allowPrivate)
  if (refusal !== null) throw new Rejection('invalid', `base_url cannot be used: ${refusal}`, 'base_url')
}

/** Fields that are validated together when a change touches one of them. */
const VALIDATED = ['kind', 'base_url', 'region', 'options'] as const

const requireValid = (row: Pick<ProviderFields, (typeof VALIDATED)[number]>, kinds: KindTable): void => {
  const kind = kinds.resolve(row.kind)
  const problem = kind === null ? null : providerProblem(kind, row)
  if (problem !== null) throw new Rejection('invalid', problem.message, problem.param)
}

const requireEnv = ({ api_key_env }: Partial<ProviderFields>, kinds: KindTable): void => {
  const problem = envProblem(api_key_env, kinds)
  if (problem !== null) throw new Rejection('invalid', problem.message, problem.param)
}

const deleteProvider = (deps: ProviderDeps): AdminRoute =>
  route({
    method: 'DELETE',
    path: '/providers/:id',
    forAll: true,
    scopes: WRITE,
    summary: 'Delete a provider with its models, its credential, and the budgets that are about it alone',
    answer: deletion('models_removed', 'budgets_removed'),
    async handle(call) {
      const id = call.params.id
      const result = await write(
        deps.commit,
        call,
        (state) => state.table('providers').get(id),
        (state) => decideProvider(state, { do: 'delete', id }),
      )
      const gone = result.changes.find(({ table }) => table === 'providers')?.before as ProviderRow | null | undefined
      if (gone?.credential != null) await deps.dataKeys.erase(gone.credential.key_id)
      const { models = 0, budgets = 0 } = result.removed
      const body = { deleted: true, id, models_removed: models, budgets_removed: budgets }
      return { body, revision: result.revision }
    },
  })

export const providerRoutes = (deps: ProviderDeps): AdminRoute[] => [
  listProviders(deps),
  createProvider(deps),
  getProvider(deps),
  saveProvider('PUT', deps),
  saveProvider('PATCH', deps),
  deleteProvider(deps),
  ...credentialRoutes(deps),
  ...syncRoutes(deps),
  ...providerTestRoutes(deps),
  ...detectionRoutes(deps),
]
