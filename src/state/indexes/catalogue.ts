// The registry joined with its providers, as routing reads it. Follows the fold: an event renews the entries that it
// touches, no more.

import type { RowChange } from '../../domain/kernel/tables.ts'
import type { ModelRow } from '../../domain/registry/model.ts'
import { apiKeyEnvIsAllowed, type ProviderRow } from '../../domain/registry/provider.ts'
import { isBoundTo } from '../../domain/registry/secret-binding.ts'
import type { Diagnostics } from '../../lib/process/diagnostics.ts'
import { isSendable } from '../../lib/text/storable-text.ts'
import type { Catalogue, CatalogueEntry, DataKeys, LiveState } from '../port.ts'

/** The facts of a provider kind that the catalogue needs. */
export interface KindFacts {
  readonly needsCredential: boolean
  readonly defaultBaseUrl: string | null
  /** Present: answers in process, needs no address. */
  readonly script?: unknown
}

export interface CatalogueDeps {
  readonly live: Pick<LiveState, 'control' | 'subscribe' | 'refused'>
  readonly dataKeys: Pick<DataKeys, 'open' | 'subscribe'>
  /** Environment variables, for `api_key_env`. */
  readonly env: Readonly<Record<string, string | undefined>>
  /**
   * Whether a provider may name this variable; by default every one but the gateway's own. A row may be older than
   * the rule.
   */
  readonly envIsAllowed?: (name: string) => boolean
  readonly kinds: Pick<ReadonlyMap<string, KindFacts>, 'get'>
  readonly diagnostics: Diagnostics
}

/**
 * The former key of a replaced credential is erased before the decision arrives here: the row is checked again a little
 * later.
 */
const ERASED_GRACE_MS = 5_000

/** Opens the catalogue on the folded state, and keeps it up to date. Open the data keys first. */
export const openCatalogue = (deps: CatalogueDeps): OpenCatalogue => new Registry(deps)

export interface OpenCatalogue extends Catalogue {
  /**
   * Whether requests could be sent to this provider: a known kind, an address, and a secret where that kind needs one.
   */
  adapterReady(providerId: string): boolean
  close(): void
}

/**
 * `api_key_env` when its variable is set, else the stored credential, else null; null too for a text that no header can
 * carry. A secret that was given for another kind or address is not there.
 */
export const providerSecret = (
  row: ProviderRow,
  {
    env,
    envIsAllowed = apiKeyEnvIsAllowed,
    dataKeys,
    diagnostics,
  }: Pick<CatalogueDeps, 'env' | 'envIsAllowed' | 'diagnostics'> & { dataKeys: Pick<DataKeys, 'open'> },
): string | null => {
  const { id, api_key_env, credential } = row
  const sendable = (text: string, from: string): string | null => {
    const secret = text.trim() // files and pipes end in a line break
    if (isSendable(secret)) return secret
    diagnostics.error('credential_cannot_be_sent', { provider_id: id, from })
    return null
  }
  const mayRead = api_key_env !== null && envIsAllowed(api_key_env) && isBoundTo(row.env_bound_to, row)
  const fromEnv = mayRead ? env[api_key_env] : undefined
  if (fromEnv !== undefined && fromEnv !== '') return sendable(fromEnv, api_key_env!)
  if (credential === null || !isBoundTo(credential.bound_to, row)) return null
  try {
    const opened = dataKeys.open(id, credential.key_id, credential.sealed)
    return opened === null ? null : sendable(opened, 'credential')
  } catch (error) {
    diagnostics.error('credential_cannot_be_opened', { provider_id: id, error })
    return null
  }
}

/** The members that the row of a provider contributes to each of its models. */
interface Adapter {
  readonly row: ProviderRow
  readonly baseUrl: string
  readonly secret: string | null
  readonly usable: boolean
}

class Registry implements OpenCatalogue {
  readonly #adapters = new Map<string, Adapter>()
  readonly #entries = new Map<string, CatalogueEntry>()
  readonly #byName = new Map<string, CatalogueEntry[]>()
  readonly #byAlias = new Map<string, CatalogueEntry[]>()
  readonly #aliasesOf = new Map<string, readonly string[]>()
  #version = 0
  #all: readonly CatalogueEntry[] | null = null
  #aliases: ReadonlyMap<string, string> | null = null
  readonly #stops: (() => void)[] = []
  readonly #timers = new Set<ReturnType<typeof setTimeout>>()

  constructor(readonly deps: CatalogueDeps) {
    const { control, subscribe } = { control: deps.live.control, subscribe: deps.live.subscribe.bind(deps.live) }
    for (const [, row] of control.table('providers').rows()) this.#adapters.set(row.id, this.#adapterOf(row))
    for (const [, row] of control.table('models').rows()) this.#put(row)
    this.#stops.push(subscribe(({ changes, refused }) => this.#follow(changes, refused)))
    this.#stops.push(deps.dataKeys.subscribe((keyId, what) => this.#keyMoved(keyId, what)))
  }

  get version(): number {
    return this.#version
  }

  resolve(name: string): readonly CatalogueEntry[] {
    const word = name.toLowerCase()
    return this.#byName.get(word) ?? this.#byAlias.get(word) ?? []
  }

  all(): readonly CatalogueEntry[] {
    this.#all ??= [...this.#entries.values()].sort(inOrder)
    return this.#all
  }

  aliases(): ReadonlyMap<string, string> {
    if (this.#aliases === null) {
      const aliases = new Map<string, string>()
      for (const { modelId, name } of this.all()) {
        for (const alias of this.#aliasesOf.get(modelId) ?? []) if (!aliases.has(alias)) aliases.set(alias, name)
      }
      this.#aliases = aliases
    }
    return this.#aliases
  }

  usableProviders(killedIds: ReadonlySet<string>): number {
    let usable = 0
    for (const { usable: has, row } of this.#adapters.values())
      if (has && row.status === 'active' && !killedIds.has(row.id)) usable += 1
    return usable
  }

  adapterReady(providerId: string): boolean {
    return this.#adapters.get(providerId)?.usable ?? false
  }

  close(): void {
    for (const stop of this.#stops) stop()
    for (const timer of this.#timers) clearTimeout(timer)
  }

  #follow(changes: readonly RowChange[], refused: readonly string[]): void {
    const { control } = this.deps.live
    for (const { table, id, after } of changes) {
      if (table === 'providers') this.#provider(id, after as ProviderRow | null)
      if (table === 'models') {
        this.#remove(id)
        if (after !== null) this.#put(after as ModelRow)
      }
    }
    for (const id of refused) {
      const [provider, model] = [control.table('providers').get(id), control.table('models').get(id)]
      if (provider !== undefined) this.#provider(id, provider)
      if (model === undefined) continue
      this.#remove(id)
      this.#put(model)
    }
  }

  #provider(id: string, row: ProviderRow | null): void {
    if (row === null) this.#adapters.delete(id)
    else this.#adapters.set(id, this.#adapterOf(row))
    const models = this.deps.live.control.table('models')
    for (const modelId of models.find('provider', id)) {
      this.#remove(modelId)
      this.#put(models.get(modelId)!)
    }
  }

  #keyMoved(keyId: string, what: 'arrived' | 'erased'): void {
    const renew = () => {
      for (const [id, row] of this.deps.live.control.table('providers').rows()) {
        if (row.credential?.key_id === keyId) this.#provider(id, row)
      }
    }
    if (what === 'arrived') {
      renew()
      return
    }
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      renew()
    }, ERASED_GRACE_MS)
    this.#timers.add(timer)
  }

  #adapterOf(row: ProviderRow): Adapter {
    const kind = this.deps.kinds.get(row.kind)
    const secret = providerSecret(row, this.deps)
    const baseUrl = row.base_url ?? kind?.defaultBaseUrl ?? ''
    const usable =
      kind !== undefined &&
      (secret !== null || !kind.needsCredential) &&
      (baseUrl !== '' || kind.script !== undefined) &&
      !this.deps.live.refused.has(row.id)
    return { row, baseUrl, secret, usable }
  }

  #put(row: ModelRow): void {
    const adapter = this.#adapters.get(row.provider_id)
    if (adapter === undefined) return
    const entry = entryOf(row, adapter, this.deps.live.refused.has(row.id))
    this.#entries.set(row.id, entry)
    this.#aliasesOf.set(row.id, row.aliases)
    insert(this.#byName, row.name, entry)
    for (const alias of row.aliases) insert(this.#byAlias, alias, entry)
    this.#changed()
  }

  #changed(): void {
    this.#version += 1
    this.#all = this.#aliases = null
  }

  #remove(modelId: string): void {
    const entry = this.#entries.get(modelId)
    if (entry === undefined) return
    withdraw(this.#byName, entry.name, modelId)
    for (const alias of this.#aliasesOf.get(modelId) ?? []) withdraw(this.#byAlias, alias, modelId)
    this.#entries.delete(modelId)
    this.#aliasesOf.delete(modelId)
    this.#changed()
  }
}

/** Without tiers the member is absent, so that most entries have one shape. */
const tiersOf = ({ price_tiers }: ModelRow): Pick<CatalogueEntry, 'priceTiers'> =>
  price_tiers == null || price_tiers.length === 0
    ? {}
    : {
        priceTiers: price_tiers.map((tier) => ({
          abovePromptTokens: tier.above_prompt_tokens,
          inputCostPerMillion: tier.input_cost_per_million,
          outputCostPerMillion: tier.output_cost_per_million,
          cachedInputCostPerMillion: tier.cached_input_cost_per_million,
        })),
      }

const entryOf = (
  row: ModelRow,
  { row: provider, baseUrl, secret, usable }: Adapter,
  refused: boolean,
): CatalogueEntry => ({
  modelId: row.id,
  providerId: provider.id,
  name: row.name,
  provider: provider.name,
  kind: provider.kind,
  baseUrl,
  upstreamModel: row.upstream_model,
  priority: row.priority,
  capabilities: row.capabilities,
  contextWindow: row.context_window,
  maxOutputTokens: row.max_output_tokens,
  inputCostPerMillion: row.input_cost_per_million,
  outputCostPerMillion: row.output_cost_per_million,
  cachedInputCostPerMillion: row.cached_input_cost_per_million,
  ...tiersOf(row),
  region: provider.region,
  timeoutMs: provider.timeout_ms,
  weight: provider.weight ?? 1,
  maxConcurrency: provider.max_concurrency,
  usageOnStream: provider.usage_on_stream,
  options: provider.options,
  unroutable:
    row.status === 'disabled' || provider.status === 'disabled' || refused ? 'disabled' : usable ? null : 'no_adapter',
  secret,
  revision: row.revision,
  createdAtMs: Date.parse(row.created_at),
})

/** Lower priority first, then the provider's name; then the model's, so that the order never depends on arrival. */
const inOrder = (a: CatalogueEntry, b: CatalogueEntry): number =>
  a.priority - b.priority || compare(a.provider, b.provider) || compare(a.name, b.name) || compare(a.modelId, b.modelId)

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** Lists are replaced, not changed: a plan may refer to one. */
const insert = (index: Map<string, CatalogueEntry[]>, name: string, entry: CatalogueEntry): void => {
  const word = name.toLowerCase()
  index.set(word, [...(index.get(word) ?? []), entry].sort(inOrder))
}

const withdraw = (index: Map<string, CatalogueEntry[]>, name: string, modelId: string): void => {
  const word = name.toLowerCase()
  const rest = (index.get(word) ?? []).filter((entry) => entry.modelId !== modelId)
  if (rest.length === 0) index.delete(word)
  else index.set(word, rest)
}
