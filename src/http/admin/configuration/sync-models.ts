// `/admin/v1/providers/{id}/sync-models`, and the synchronisation after a new credential. Its counts are recorded.
import type { Cause } from '../../../domain/kernel/decision.ts'
import type { ProviderRow } from '../../../domain/registry/provider.ts'
import { cutDetail, decideProviderTest, type ProviderTestRow } from '../../../domain/registry/provider-test.ts'
import { canList } from '../../../upkeep/models/model-listing.ts'
import { type SyncSummary, syncModels } from '../../../upkeep/models/model-sync.ts'
import { GatewayError } from '../../../wire/errors.ts'
import type { ProviderDeps } from '../answers/provider-view.ts'
import { begin } from '../answers/provider-work.ts'
import { ModelSyncView } from '../answers/work.ts'
import { type AdminCall, type AdminRoute, route } from '../route.ts'
import { rowAfter } from '../write.ts'

/**
 * Result of a synchronisation, and the decision to name: the last one that created models, else the one that records
 * it.
 */
export type Synced =
  | { readonly summary: SyncSummary; readonly error: null; readonly revision: string }
  | { readonly summary: null; readonly error: GatewayError; readonly revision: string }

/**
 * Registers the models that the provider lists and the registry lacks. A failure of the provider is recorded and
 * returned; other errors are thrown.
 */
export const syncProvider = async (
  call: AdminCall,
  provider: ProviderRow,
  cause: Cause | null,
  deps: ProviderDeps,
): Promise<Synced> => {
  const startedMs = performance.now()
  const { actor } = call.principal
  const record = async (
    found: Pick<ProviderTestRow, 'success'> & { detail: string; sync?: SyncSummary; code?: string },
  ) => {
    const result = {
      check: 'sync',
      status: found.success ? ('passed' as const) : ('failed' as const),
      latency_ms: Math.max(0, Math.round(performance.now() - startedMs)),
      detail: cutDetail(found.detail),
      ...(found.code === undefined ? {} : { error_code: found.code }),
      ...(found.sync === undefined ? {} : { sync: found.sync }),
    }
    const { success } = found
    const tested = {
      id: deps.newId('test'),
      provider_id: provider.id,
      kind: 'sync' as const,
      success,
      results: [result],
    }
    // A failure is not stored for repeats: a retry of the request tries again.
    return deps.commit({ actor, cause: success ? cause : null, decide: (state) => decideProviderTest(state, tested) })
  }
  try {
    const listing = await deps.providerWork.list(provider, call.request.signal)
    const { commit, modelCatalogue } = deps
    const summary = await syncModels(
      provider,
      listing,
      { actor, managedBy: 'api' },
      { commit, newModelId: () => deps.newId('mod'), factsOf: modelCatalogue.factsOfListed },
    )
    const detail = `it lists ${summary.total} models: ${summary.created} created, ${summary.skipped} skipped`
    const result = await record({ success: true, detail, sync: summary })
    const synced = rowAfter(result, 'tests')?.results[0]?.sync ?? summary
    return { summary: synced, error: null, revision: synced.revisions?.at(-1) ?? result.revision }
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    if (NOT_TRIED.includes(error.code)) return { summary: null, error, revision: deps.live.status().tip }
    const result = await record({ success: false, detail: error.message, code: error.code })
    return { summary: null, error, revision: result.revision }
  }
}

/**
 * Errors without information about the provider: its kind cannot list, the operator disconnected, or too much is under
 * way.
 */
const NOT_TRIED: readonly string[] = ['not_implemented', 'request_canceled', 'rate_limited']

const syncRoute = (deps: ProviderDeps): AdminRoute =>
  route({
    method: 'POST',
    path: '/providers/:id/sync-models',
    forAll: true,
    scopes: ['providers:admin'],
    summary: 'Register the models that a provider lists and the registry lacks',
    answer: ModelSyncView,
    async handle(call) {
      const begun = await begin(call, deps)
      if (begun.provider === null) {
        const sync = begun.earlier.results[0]?.sync
        return { body: sync, revision: sync?.revisions?.at(-1) ?? begun.revision }
      }
      const { provider } = begun
      if (!canList(provider, deps.kindTable)) {
        throw new GatewayError('not_implemented', `providers of the kind "${provider.kind}" cannot list their models`)
      }
      const { summary, error, revision } = await syncProvider(call, provider, call.intent.cause, deps)
      if (error !== null) throw error
      return { body: summary, revision }
    },
  })

export const syncRoutes = (deps: ProviderDeps): AdminRoute[] => [syncRoute(deps)]
