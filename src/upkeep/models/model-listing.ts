// Lists the models that a provider serves: one bounded call through the dialer, or none when its kind cannot list.
import type { ProviderRow } from '../../domain/registry/provider.ts'
import { withheldSecret } from '../../domain/registry/secret-binding.ts'
import { type Dial, DialFailure } from '../../lib/http-client/http-client.ts'
import type { ListedModel, ProviderKind, Target, UpstreamRequest } from '../../providers/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import { requireBounded } from '../../wire/upstream-json.ts'
import { capabilitiesOf, capabilityCatalogue } from './capability-snapshot.ts'
import type { KindTable } from './kind-table.ts'
import { type CataloguePrice, cataloguePrice, type ModelFacts, modelFacts } from './model-facts.ts'

export interface ListingDeps {
  readonly dial: Dial
  readonly kindTable: KindTable
  /** `api_key_env` if set, else the stored credential, else null. */
  secretOf(provider: ProviderRow): string | null
  nowMs(): number
}

/** How long a listing is waited for. */
export interface Patience {
  readonly totalMs: number
  /** Ends it early. */
  readonly signal: AbortSignal | undefined
}

const CONNECT_MS = 3_000
const TOTAL_MS = 10_000
/** How long the write of a single model waits for a listing from which it only fills gaps. */
const FACTS_MS = 3_000
const MAX_BYTES = 8 * 1024 * 1024
/** A listing is reused for further model writes for a minute; at most so many providers are remembered. */
const KEPT_MS = 60_000
const KEPT_PROVIDERS = 64

const FREE: CataloguePrice = { contextWindow: null, input: 0, output: 0, cachedInput: 0 }

const targetOf = (provider: ProviderRow, kind: ProviderKind, secret: string | null, atMs: number): Target => ({
  baseUrl: provider.base_url ?? kind.defaultBaseUrl ?? '',
  secret,
  upstreamModel: '',
  options: provider.options,
  maxOutputTokens: null,
  usageOnStream: provider.usage_on_stream,
  region: provider.region,
  atMs,
})

/** The response's status, headers and text: over the network, or from a kind that answers in process. */
const responseOf = async (kind: ProviderKind, request: UpstreamRequest, dial: Dial, { totalMs, signal }: Patience) => {
  if (kind.script !== undefined) {
    const { status, headers, pieces } = kind.script(request)
    return { status, headers: new Headers(headers), text: pieces.map((piece) => piece.text).join('') }
  }
  const timeout = AbortSignal.timeout(totalMs)
  const limits = {
    signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
    connectMs: Math.min(CONNECT_MS, totalMs),
    headersMs: totalMs,
  }
  try {
    const response = await dial(request, limits)
    return { status: response.status, headers: response.headers, text: await response.text(MAX_BYTES) }
  } catch (error) {
    if (!(error instanceof DialFailure) && !limits.signal.aborted) throw error
    const isLate = timeout.aborted || (error instanceof DialFailure && error.kind.startsWith('timeout_'))
    const why = timeout.aborted ? `it did not answer within ${totalMs / 1000} s` : messageOf(error)
    throw new GatewayError(
      isLate ? 'timeout' : 'upstream_error',
      `the provider cannot be asked for its models: ${why}`,
      { cause: error },
    )
  }
}

const messageOf = (error: unknown): string => (error instanceof DialFailure ? error.message : 'the connection broke')

/** Whether the provider's kind can list at all. */
export const canList = (provider: ProviderRow, kinds: KindTable): boolean =>
  kinds.resolve(provider.kind)?.listing !== undefined

/**
 * The models of a provider; throws 501 when its kind cannot list, and the error of the provider's failure otherwise.
 */
export const listModels = async (
  provider: ProviderRow,
  deps: ListingDeps,
  { totalMs = TOTAL_MS, signal }: Partial<Patience> = {},
): Promise<readonly ListedModel[]> => {
  const kind = deps.kindTable.resolve(provider.kind)
  if (kind?.listing === undefined) {
    throw new GatewayError('not_implemented', `providers of the kind "${provider.kind}" cannot list their models`)
  }
  const secret = deps.secretOf(provider)
  if (kind.needsCredential && secret === null) {
    const withheld = withheldSecret(provider, () => false)
    const why = withheld === null ? 'has no credential' : `cannot be called: ${withheld}`
    throw new GatewayError('provider_unavailable', `the provider "${provider.name}" ${why}`)
  }
  const { listing } = kind
  const target = targetOf(provider, kind, secret, deps.nowMs())
  // The provider's text about its failure may quote what it was sent.
  const reading = { id: '', createdS: Math.floor(deps.nowMs() / 1_000), secret, baseUrl: target.baseUrl }
  const models = new Map<string, ListedModel>()
  for (const request of [listing.request(target), ...(listing.further?.(target) ?? [])]) {
    const { status, headers, text } = await responseOf(kind, request, deps.dial, { totalMs, signal })
    requireBounded(text)
    if (status >= 300) throw kind.failure(status, text, headers, reading)
    for (const model of listing.read(text)) if (!models.has(model.name)) models.set(model.name, model)
  }
  return [...models.values()]
}

export interface ModelCatalogue {
  /** The provider's models as it lists them now. */
  list(provider: ProviderRow, patience?: Partial<Patience>): Promise<readonly ListedModel[]>
  /** The facts of a listed model. */
  factsOfListed(provider: ProviderRow, listed: ListedModel): Promise<ModelFacts>
  /** The facts of a model by its name; without the listing when it fails or takes long. */
  factsOf(provider: ProviderRow, upstreamModel: string): Promise<ModelFacts>
}

/** Listings and facts for the admin API and the seeder. */
export const modelCatalogue = (deps: ListingDeps): ModelCatalogue => {
  const kept = new Map<
    string,
    { readonly revision: string; readonly atMs: number; readonly models: readonly ListedModel[] }
  >()
  const list = async (provider: ProviderRow, patience?: Partial<Patience>): Promise<readonly ListedModel[]> => {
    return keep(provider, await listModels(provider, deps, patience))
  }
  const keep = (provider: ProviderRow, models: readonly ListedModel[]): readonly ListedModel[] => {
    kept.delete(provider.id)
    kept.set(provider.id, { revision: provider.revision, atMs: deps.nowMs(), models })
    if (kept.size > KEPT_PROVIDERS) kept.delete(kept.keys().next().value!)
    return models
  }
  const factsOfListed = async (
    provider: ProviderRow,
    name: string,
    listed: ListedModel | null,
  ): Promise<ModelFacts> => {
    const kind = deps.kindTable.resolve(provider.kind)
    // A model that answers in process costs nothing, and only its kind has its facts.
    if (kind?.script !== undefined) return modelFacts(listed, FREE, kind.capabilities)
    const [price, capabilities] = await Promise.all([
      cataloguePrice(provider, name, deps.nowMs()),
      capabilityCatalogue(),
    ])
    const known = capabilitiesOf(capabilities, kind?.kind ?? provider.kind, name)
    return modelFacts(listed, price, kind?.capabilities ?? [], known)
  }
  return {
    list,
    factsOfListed: (provider, listed) => factsOfListed(provider, listed.name, listed),
    async factsOf(provider, upstreamModel) {
      const recent = kept.get(provider.id)
      let models: readonly ListedModel[] = []
      if (recent !== undefined && recent.revision === provider.revision && deps.nowMs() - recent.atMs < KEPT_MS) {
        models = recent.models
      } else if (canList(provider, deps.kindTable)) {
        // A provider that cannot be reached now must not stop an operator from registering its model.
        models = await list(provider, { totalMs: FACTS_MS }).catch(() => keep(provider, []))
      }
      return factsOfListed(provider, upstreamModel, models.find(({ name }) => name === upstreamModel) ?? null)
    },
  }
}
