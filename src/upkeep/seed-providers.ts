// Providers and models of `bootstrap:`, of the usual environment variables, and the sandbox when there is nothing else.
import type { BootstrapModel } from '../domain/bootstrap.ts'
import type { ControlReader } from '../domain/control.ts'
import type { EventRecord } from '../domain/decision.ts'
import type { Status } from '../domain/fields.ts'
import { DEFAULT_PRIORITY, decideModel, naturalKey } from '../domain/model.ts'
import { decideProvider, type ProviderFields, type ProviderRow } from '../domain/provider.ts'
import type { ListedModel, ProviderKind } from '../providers/provider.ts'
import { GatewayError } from '../wire/errors.ts'
import { needsBaseUrl, providerFlaw } from './kind-table.ts'
import { canList } from './model-listing.ts'
import { syncModels } from './model-sync.ts'
import { SEEDER_ACTOR, type SeedDeps, type SeedInput, type SeedReport, seeded } from './seed-step.ts'

/** What a kind's usual variable brings when the provider cannot be asked: few, current, and in the price catalogue. */
const WELL_KNOWN: Readonly<Record<string, readonly string[]>> = {
  openai: ['gpt-5.5', 'gpt-5.4-mini', 'gpt-4.1', 'gpt-4.1-mini', 'gpt-4o', 'gpt-4o-mini'],
  anthropic: ['claude-opus-5-5', 'claude-sonnet-5', 'claude-haiku-4-5'],
  gemini: ['gemini-3.1-pro-preview', 'gemini-2.5-pro', 'gemini-2.5-flash'],
  mistral: ['mistral-large-latest', 'mistral-medium-latest', 'mistral-small-latest'],
  openrouter: ['anthropic/claude-sonnet-5', 'openai/gpt-4o-mini'],
  groq: ['openai/gpt-oss-120b', 'openai/gpt-oss-20b', 'llama-3.3-70b-versatile'],
  together: ['meta-llama/Llama-3.3-70B-Instruct-Turbo'],
  fireworks: ['accounts/fireworks/models/gpt-oss-120b', 'accounts/fireworks/models/deepseek-v3p2'],
  deepseek: ['deepseek-chat', 'deepseek-reasoner'],
  xai: ['grok-4.3', 'grok-4-fast-reasoning'],
  perplexity: ['sonar', 'sonar-pro', 'sonar-reasoning-pro', 'sonar-deep-research'],
  cerebras: ['gpt-oss-120b', 'zai-glm-4.7'],
  cohere: ['command-a-03-2025', 'command-r7b-12-2024'],
  sandbox: ['sandbox-echo'],
}
const SANDBOX = 'sandbox'

/** What a provider is where nothing is said. */
export const PROVIDER_DEFAULTS: Omit<ProviderFields, 'kind' | 'base_url'> = {
  api_key_env: null,
  region: null,
  timeout_ms: null,
  max_concurrency: null,
  weight: null,
  usage_on_stream: false,
  options: {},
}

const providerNamed = (state: ControlReader, name: string): ProviderRow | undefined => {
  const [id] = state.table('providers').find('name', name.toLowerCase())
  return id === undefined ? undefined : state.table('providers').get(id)
}

/** Pure: creates it, brings a seeded one up to date, leaves what the API has edited. */
const decideSeeded = (
  state: ControlReader,
  entry: { id: string; name: string; status: Status },
  fields: ProviderFields,
): EventRecord[] => {
  const row = providerNamed(state, entry.name)
  if (row === undefined) return decideProvider(state, { do: 'create', ...entry, managed_by: 'bootstrap', ...fields })
  if (row.managed_by !== 'bootstrap') return []
  return decideProvider(state, { do: 'change', id: row.id, status: entry.status, managed_by: 'bootstrap', ...fields })
}

const seedListed = async ({ bootstrap }: SeedInput, deps: SeedDeps, report: SeedReport): Promise<void> => {
  for (const { name, kind: kindName, enabled, models: _, ...given } of bootstrap.providers ?? []) {
    const what = `bootstrap.providers "${name}"`
    const kind = deps.kindTable.resolve(kindName)
    if (kind === null) {
      report.notes.push(`${what}: unknown kind "${kindName}"; the kinds are ${deps.kindTable.names.join(', ')}`)
      continue
    }
    const fields = { ...PROVIDER_DEFAULTS, ...given, kind: kind.kind, base_url: given.base_url ?? kind.defaultBaseUrl }
    const flaw = providerFlaw(kind, fields)
    if (flaw !== null) {
      report.notes.push(`${what}: ${flaw.message}`)
      continue
    }
    const entry = { id: deps.newId('prov'), name, status: enabled === false ? 'disabled' : 'active' } as const
    await seeded(what, deps, report, (state) => decideSeeded(state, entry, fields))
  }
}

/** The kind's own address, else the one in its usual variable; null without either. */
const usualBaseUrl = (kind: ProviderKind, deps: SeedDeps, report: SeedReport): string | null => {
  const { defaultBaseUrl, usualBaseUrlEnv: variable } = kind
  if (defaultBaseUrl !== null || variable === undefined) return defaultBaseUrl
  const given = deps.env(variable)
  if (!given) return null
  if (/^https?:\/\/[^\s/]/.test(given)) return given
  report.notes.push(
    `the provider of ${kind.usualEnv}: ${variable} is no address; it must begin with https:// or http://`,
  )
  return null
}

/** A provider named as its kind, for each kind whose usual variable is set and that no provider reads yet. */
const seedUsual = async (deps: SeedDeps, report: SeedReport): Promise<void> => {
  for (const name of deps.kindTable.names) {
    const kind = deps.kindTable.resolve(name)
    const variable = kind?.usualEnv
    if (kind == null || variable == null || !deps.env(variable)) continue
    const baseUrl = usualBaseUrl(kind, deps, report)
    if (baseUrl === null && needsBaseUrl(kind)) continue
    const id = deps.newId('prov')
    const fields = { ...PROVIDER_DEFAULTS, kind: kind.kind, base_url: baseUrl, api_key_env: variable }
    await seeded(`the provider of ${variable}`, deps, report, (state) => {
      const used = [...state.table('providers').rows()].some(([, row]) => row.api_key_env === variable)
      return used || providerNamed(state, kind.kind) !== undefined
        ? []
        : decideSeeded(state, { id, name: kind.kind, status: 'active' }, fields)
    })
  }
}

/** So that the first request works with nothing set up at all. */
const seedSandbox = async (deps: SeedDeps, report: SeedReport): Promise<void> => {
  if (deps.kindTable.resolve(SANDBOX) === null) return
  const entry = { id: deps.newId('prov'), name: SANDBOX, status: 'active' } as const
  const fields = { ...PROVIDER_DEFAULTS, kind: SANDBOX, base_url: null }
  await seeded('the sandbox', deps, report, (state) =>
    state.table('providers').size > 0 ? [] : decideSeeded(state, entry, fields),
  )
}

const unknown = (name: string): ListedModel => ({
  name,
  contextWindow: null,
  maxOutputTokens: null,
  capabilities: null,
})

/** Models of seeded providers that have none: what the provider lists, else the well-known ones. */
const seedUsualModels = async ({ bootstrap }: SeedInput, deps: SeedDeps, report: SeedReport): Promise<void> => {
  const { control } = deps.live
  const listed = new Set((bootstrap.providers ?? []).map(({ name }) => name.toLowerCase()))
  const bare = [...control.table('providers').rows()]
    .map(([, row]) => row)
    .filter((row) => row.managed_by === 'bootstrap' && row.name === row.kind && !listed.has(row.name.toLowerCase()))
    .filter((row) => control.table('models').find('provider', row.id).length === 0)
  const listings = await Promise.all(
    bare.map(async (provider) => {
      const known = (WELL_KNOWN[provider.kind] ?? []).map(unknown)
      if (!canList(provider, deps.kindTable)) {
        if (known.length === 0)
          report.notes.push(`the provider "${provider.name}" cannot list what it serves: add its models`)
        return known
      }
      try {
        const models = await deps.modelCatalogue.list(provider, { totalMs: LISTING_MS })
        return models.length === 0 ? known : models
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error
        report.notes.push(`the provider "${provider.name}" did not list its models: ${error.message}`)
        return known
      }
    }),
  )
  for (const [i, provider] of bare.entries()) {
    await syncModels(
      provider,
      listings[i]!,
      { actor: SEEDER_ACTOR, managedBy: 'bootstrap' },
      {
        commit: deps.commit,
        newModelId: () => deps.newId('mod'),
        factsOf: deps.modelCatalogue.factsOfListed,
      },
    )
  }
}

/** What a start waits for a provider that is asked for its models. */
const LISTING_MS = 3_000

const seedModel = async (entry: BootstrapModel, deps: SeedDeps, report: SeedReport): Promise<void> => {
  const { provider: providerName, name, enabled, ...given } = entry
  const what = `bootstrap.models "${name}" of "${providerName}"`
  const provider = providerNamed(deps.live.control, providerName)
  if (provider === undefined) {
    report.notes.push(`${what}: there is no such provider`)
    return
  }
  const { models } = { models: deps.live.control.table('models') }
  const isNew = models.find('natural', naturalKey(provider.id, name)).length === 0
  const upstream_model = given.upstream_model ?? name
  const facts = isNew ? await deps.modelCatalogue.factsOf(provider, upstream_model) : null
  const status = enabled === false ? 'disabled' : 'active'
  const { capability_source: said = 'operator' } = given
  const source = given.capabilities === undefined ? {} : { capability_source: said }
  const id = deps.newId('mod')
  await seeded(what, deps, report, (state) => {
    const [existing] = state.table('models').find('natural', naturalKey(provider.id, name))
    const row = existing === undefined ? undefined : state.table('models').get(existing)
    if (row !== undefined) {
      if (row.managed_by !== 'bootstrap') return []
      return decideModel(state, { do: 'change', id: row.id, status, managed_by: 'bootstrap', ...given, ...source })
    }
    if (facts === null) return [] // deleted meanwhile, by somebody who meant it
    const defaults = { priority: DEFAULT_PRIORITY, aliases: [] }
    const fields = { ...defaults, ...facts, ...given, ...source, upstream_model }
    return decideModel(state, {
      do: 'create',
      id,
      name,
      provider_id: provider.id,
      status,
      managed_by: 'bootstrap',
      ...fields,
    })
  })
}

/** Providers first, then their models; the sandbox only when no provider came of all that. */
export const seedProviders = async (input: SeedInput, deps: SeedDeps, report: SeedReport): Promise<void> => {
  const { providers = [], models = [] } = input.bootstrap
  await seedListed(input, deps, report)
  await seedUsual(deps, report)
  // An empty list says that there are none.
  if (input.bootstrap.providers === undefined || providers.length > 0) await seedSandbox(deps, report)
  const nested = providers.flatMap(({ name, models: own = [] }) => own.map((model) => ({ provider: name, ...model })))
  for (const entry of [...nested, ...models]) await seedModel(entry, deps, report)
  await seedUsualModels(input, deps, report)
}
