// `/admin/v1/providers/{id}/credential` and the synchronisation of models. A secret is sealed before the decision that names it.
import type { ControlReader } from '../../domain/control.ts'
import { closed, Nullable } from '../../domain/fields.ts'
import { decideProvider, type ProviderRow } from '../../domain/provider.ts'
import { Rejection } from '../../domain/rejection.ts'
import { t } from '../../lib/schema.ts'
import type { CommitResult } from '../../state/port.ts'
import { canList } from '../../upkeep/model-listing.ts'
import { type SyncSummary, syncModels } from '../../upkeep/model-sync.ts'
import { GatewayError } from '../../wire/errors.ts'
import { credentialView, type ProviderDeps, providerOf } from './provider-view.ts'
import { type AdminCall, type AdminRoute, route } from './route.ts'
import { rowAfter, write } from './write.ts'

const READ = ['usage:read', 'providers:admin'] as const
const WRITE = ['providers:admin'] as const

const NewCredential = closed(
  t.Object({
    secret: t.String({ minLength: 1, maxLength: 16_384 }),
    name: t.Optional(Nullable(t.String({ minLength: 1, maxLength: 256 }))),
    sync_models: t.Optional(t.Boolean()),
  }),
)

/** So that people can tell two credentials apart; a short secret shows nothing of itself. */
const hintOf = (secret: string): string | null => (secret.length < 12 ? null : secret.slice(-4))

const viewOf = (row: ProviderRow) => ({ provider_id: row.id, ...credentialView(row) })

/** Seals the secret, decides, and erases whichever data key is not needed after it: the old one, or the new one when nothing came of it.
 * An erasure that the log does not take now changes no answer: it is owed. */
const seal = async (
  call: AdminCall,
  id: string,
  secret: string,
  name: string | null,
  deps: ProviderDeps,
): Promise<CommitResult> => {
  const { keyId, sealed } = await deps.dataKeys.seal(id, secret)
  const command = { do: 'seal', provider_id: id, key_id: keyId, sealed, name, hint: hintOf(secret) } as const
  const current = (state: ControlReader) => state.table('providers').get(id)
  let result: CommitResult
  try {
    result = await write(deps.commit, call, current, (state) => decideProvider(state, command))
  } catch (error) {
    // Only a refusal is certain; what may yet count keeps its key, and the sweep of unused data keys finds it otherwise.
    if (error instanceof Rejection) await deps.dataKeys.erase(keyId)
    throw error
  }
  if (result.repeated) {
    await deps.dataKeys.erase(keyId)
    return result
  }
  const replaced = result.changes.find(({ table }) => table === 'providers')?.before as ProviderRow | null | undefined
  if (replaced?.credential != null) await deps.dataKeys.erase(replaced.credential.key_id)
  return result
}

const sync = async (call: AdminCall, provider: ProviderRow, deps: ProviderDeps): Promise<SyncSummary> => {
  const listing = await deps.modelCatalogue.list(provider)
  return syncModels(
    provider,
    listing,
    { actor: call.principal.actor, managedBy: 'api' },
    {
      commit: deps.commit,
      newModelId: () => deps.newId('mod'),
      factsOf: deps.modelCatalogue.factsOfListed,
    },
  )
}

const putCredential = (deps: ProviderDeps): AdminRoute =>
  route({
    method: 'PUT',
    path: '/providers/:id/credential',
    scopes: WRITE,
    summary: 'Seal a secret for a provider, in place of the one it has',
    body: NewCredential,
    async handle(call) {
      const id = call.params.id!
      const { secret, name = null, sync_models } = call.body
      const result = await seal(call, id, secret, name, deps)
      const row = rowAfter(result, 'providers') ?? providerOf(deps.live.control, id)
      const body = viewOf(row)
      if (sync_models !== true) return { body, revision: result.revision }
      try {
        return { body: { ...body, sync: await sync(call, row, deps) }, revision: result.revision }
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error
        return { body: { ...body, sync_error: error.message }, revision: result.revision } // the credential stays
      }
    },
  })

const getCredential = (deps: ProviderDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/providers/:id/credential',
    scopes: READ,
    summary: 'Whether a provider has a credential, and which',
    handle: ({ params }) => ({ body: viewOf(providerOf(deps.live.control, params.id!)) }),
  })

const deleteCredential = (deps: ProviderDeps): AdminRoute =>
  route({
    method: 'DELETE',
    path: '/providers/:id/credential',
    scopes: WRITE,
    summary: 'Remove the secret of a provider, and the key that it was sealed under',
    async handle(call) {
      const id = call.params.id!
      const result = await write(
        deps.commit,
        call,
        (state) => state.table('providers').get(id),
        (state) => decideProvider(state, { do: 'unseal', provider_id: id }),
      )
      const before = result.changes.find(({ table }) => table === 'providers')?.before as ProviderRow | null | undefined
      if (before?.credential != null) await deps.dataKeys.erase(before.credential.key_id)
      return { body: { deleted: true, id, provider_id: id, has_credential: false }, revision: result.revision }
    },
  })

const syncProvider = (deps: ProviderDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/providers/:id/sync-models',
    scopes: WRITE,
    summary: 'Register the models that a provider lists and the registry lacks',
    async handle(call) {
      const provider = providerOf(deps.live.control, call.params.id!)
      if (!canList(provider, deps.kindTable)) {
        throw new GatewayError('not_implemented', `providers of the kind "${provider.kind}" cannot list their models`)
      }
      const { revision, ...summary } = { ...(await sync(call, provider, deps)), revision: deps.live.status().tip }
      return { body: summary, revision }
    },
  })

export const credentialRoutes = (deps: ProviderDeps): AdminRoute[] => [
  putCredential(deps),
  getCredential(deps),
  deleteCredential(deps),
  syncProvider(deps),
]
