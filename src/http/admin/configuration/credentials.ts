// `/admin/v1/providers/{id}/credential`. A secret is sealed before the decision that names it.
import type { ControlReader } from '../../../domain/control.ts'
import { closed, Nullable } from '../../../domain/kernel/fields.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import { decideProvider, type ProviderRow } from '../../../domain/registry/provider.ts'
import { testsOf } from '../../../domain/registry/provider-test.ts'
import { t } from '../../../lib/schema/schema.ts'
import { SECRET_PATTERN } from '../../../lib/text/storable-text.ts'
import type { CommitResult } from '../../../state/port.ts'
import { credentialView, type ProviderDeps, providerOf } from '../answers/provider-view.ts'
import { CredentialView, RemovedCredential } from '../answers/resources.ts'
import { ModelSyncView } from '../answers/work.ts'
import { type AdminCall, type AdminRoute, route } from '../route.ts'
import { rowAfter, write } from '../write.ts'
import { syncProvider } from './sync-models.ts'

const READ = ['usage:read', 'providers:admin'] as const
const WRITE = ['providers:admin'] as const

const NewCredential = closed(
  t.Object({
    secret: t.String({
      minLength: 1,
      maxLength: 16_384,
      pattern: SECRET_PATTERN,
      description: 'one line of printable ASCII characters, not only blanks: every kind sends it in a header',
    }),
    name: t.Optional(Nullable(t.String({ minLength: 1, maxLength: 256 }))),
    sync_models: t.Optional(t.Boolean()),
  }),
)

/** Lets operators tell credentials apart. A short secret shows no part of itself. */
const hintOf = (secret: string): string | null => (secret.length < 12 ? null : secret.slice(-4))

/** Response of a write: with the result of the synchronisation, where the write asks for one. */
const SealedView = t.Object(
  {
    ...CredentialView.properties,
    sync: t.Optional(ModelSyncView),
    sync_error: t.Optional(t.String({ description: 'why it failed; the credential is kept' })),
  },
  { title: 'SealedCredential' },
)

const viewOf = (row: ProviderRow) => ({ provider_id: row.id, ...credentialView(row) })

/**
 * Seals the secret, decides, and erases the data key that is not needed afterwards: the old one, or the new one when
 * the decision failed. An erasure that the log does not accept now does not change the response: it stays pending.
 */
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
    // Only a rejection is final. A decision that may still count keeps its key; otherwise the sweep of unused data keys
    // finds it.
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

/** The recorded result of the synchronisation of a repeated write. */
const lastSync = ({ live }: ProviderDeps, providerId: string) => {
  const result = testsOf(live.control, providerId).find(({ kind }) => kind === 'sync')?.results[0]
  if (result === undefined) return undefined
  return result.sync === undefined ? { sync_error: result.detail } : { sync: result.sync }
}

const putCredential = (deps: ProviderDeps): AdminRoute =>
  route({
    method: 'PUT',
    path: '/providers/:id/credential',
    forAll: true,
    scopes: WRITE,
    summary: 'Seal a secret for a provider, in place of the one it has',
    body: NewCredential,
    answer: SealedView,
    async handle(call) {
      const id = call.params.id
      const { secret, name = null, sync_models } = call.body
      const result = await seal(call, id, secret, name, deps)
      const row = rowAfter(result, 'providers') ?? providerOf(deps.live.control, id)
      const body = viewOf(row)
      if (sync_models !== true) return { body, revision: result.revision }
      const earlier = result.repeated ? lastSync(deps, id) : undefined
      if (earlier !== undefined) return { body: { ...body, ...earlier }, revision: result.revision }
      const { summary, error } = await syncProvider(call, row, null, deps)
      const synced = error === null ? { sync: summary } : { sync_error: error.message } // the credential stays
      return { body: { ...body, ...synced }, revision: result.revision }
    },
  })

const getCredential = (deps: ProviderDeps): AdminRoute =>
  route({
    method: 'GET',
    path: '/providers/:id/credential',
    scopes: READ,
    summary: 'Whether a provider has a credential, and which',
    answer: CredentialView,
    handle: ({ params }) => ({ body: viewOf(providerOf(deps.live.control, params.id)) }),
  })

const deleteCredential = (deps: ProviderDeps): AdminRoute =>
  route({
    method: 'DELETE',
    path: '/providers/:id/credential',
    forAll: true,
    scopes: WRITE,
    summary: 'Remove the secret of a provider, and the key that it was sealed under',
    answer: RemovedCredential,
    async handle(call) {
      const id = call.params.id
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

export const credentialRoutes = (deps: ProviderDeps): AdminRoute[] => [
  putCredential(deps),
  getCredential(deps),
  deleteCredential(deps),
]
