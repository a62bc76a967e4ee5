// Models of `bootstrap:`, and those that come with seeded providers. The facts of new models are fetched before
// anything is decided.
import type { BootstrapModel } from '../../domain/bootstrap.ts'
import type { ControlReader } from '../../domain/control.ts'
import { DEFAULT_PRIORITY, decideModel, naturalKey } from '../../domain/registry/model.ts'
import type { ProviderRow } from '../../domain/registry/provider.ts'
import type { ListedModel } from '../../providers/port.ts'
import { GatewayError } from '../../wire/errors.ts'
import { factsBeside, type ModelFacts } from '../models/model-facts.ts'
import { canList } from '../models/model-listing.ts'
import { commandsOf } from '../models/model-sync.ts'
import { decideWithAliases } from './aliases.ts'
import type { KnownFacts } from './dropped-fields.ts'
import { modelEntries } from './names.ts'
import { providerNamed } from './providers.ts'
import { decideSteps, type SeedDeps, type SeedInput, type SeedReport, type SeedStep } from './step.ts'

/** The models of a kind's usual variable when the provider cannot list: few, current, and in the price catalogue. */
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
/** How long a start waits for the listing of a provider. */
const LISTING_MS = 3_000
/** Providers that are listed at the same time. */
const AT_ONCE = 32

const unknown = (name: string): ListedModel => ({
  name,
  contextWindow: null,
  maxOutputTokens: null,
  capabilities: null,
})

/**
 * `before`: the steps that come first, which make the providers. `known`: takes the facts that catalogues have of
 * models that were there before.
 */
export const modelSteps = async (
  input: SeedInput,
  before: readonly SeedStep[],
  known: KnownFacts,
  deps: SeedDeps,
  report: SeedReport,
): Promise<SeedStep[]> => {
  const all = { bounded: false, nowMs: deps.nowMs() }
  const { state } = decideSteps(deps.live.control, before, all)
  const steps = await entrySteps(modelEntries(input.bootstrap), state, known, deps, report)
  const usual = await usualModelSteps(input, decideSteps(state, steps, all).state, deps, report)
  return [...steps, ...usual]
}

/**
 * Providers are listed concurrently, each once: the first model of a provider waits for the listing, the others find
 * it.
 */
const entrySteps = async (
  entries: readonly BootstrapModel[],
  expected: ControlReader,
  known: KnownFacts,
  deps: SeedDeps,
  report: SeedReport,
): Promise<SeedStep[]> => {
  const steps: (SeedStep | null)[] = new Array(entries.length).fill(null)
  const places = [...Map.groupBy(entries.keys(), (at) => entries[at]!.provider.toLowerCase()).values()]
  for (let from = 0; from < places.length; from += AT_ONCE) {
    const listings = places.slice(from, from + AT_ONCE).map(async (ofProvider) => {
      for (const at of ofProvider) steps[at] = await modelStep(entries[at]!, expected, known, deps, report)
    })
    await Promise.all(listings)
  }
  return steps.filter((step) => step !== null)
}

const modelStep = async (
  entry: BootstrapModel,
  expected: ControlReader,
  known: KnownFacts,
  deps: SeedDeps,
  report: SeedReport,
): Promise<SeedStep | null> => {
  const what = `bootstrap.models "${entry.name}" of "${entry.provider}"`
  const provider = providerNamed(expected, entry.provider)
  if (provider === undefined) {
    report.notes.push(`${what}: there is no such provider`)
    return null
  }
  const upstreamModel = entry.upstream_model ?? entry.name
  const [existing] = expected.table('models').find('natural', naturalKey(provider.id, entry.name))
  const row = existing === undefined ? undefined : expected.table('models').get(existing)
  const facts = row === undefined ? await deps.modelCatalogue.factsOf(provider, upstreamModel) : null
  // No provider is called: a start does not wait for providers from which it needs nothing.
  if (row?.managed_by === 'bootstrap')
    known.set(entry, await deps.modelCatalogue.factsOfListed(provider, unknown(upstreamModel)))
  const id = deps.newId('mod')
  const isDeferrable = entry.aliases !== undefined && entry.aliases.length > 0
  return { what, isDeferrable, decide: (state) => decideEntry(state, id, entry, facts) }
}

/**
 * The fields of a model that its entry does not set and no catalogue has. A model with prices of its own has neither
 * tiers nor a price of cached tokens, unless the entry sets them.
 */
const unfilled = (entry: BootstrapModel) => ({
  upstream_model: entry.name,
  priority: DEFAULT_PRIORITY,
  aliases: [],
  ...factsBeside(entry, {}),
})

/** `facts`: null when the row was there before. */
const decideEntry = (state: ControlReader, id: string, entry: BootstrapModel, facts: ModelFacts | null) => {
  const { provider: providerName, name, enabled, ...given } = entry
  const provider = providerNamed(state, providerName)
  if (provider === undefined) return [] // deleted meanwhile, on purpose
  const status = enabled === false ? 'disabled' : 'active'
  const { capability_source: statedSource = 'operator' } = given
  const source = given.capabilities === undefined ? {} : { capability_source: statedSource }
  const [existing] = state.table('models').find('natural', naturalKey(provider.id, name))
  const row = existing === undefined ? undefined : state.table('models').get(existing)
  if (row !== undefined) {
    if (row.managed_by !== 'bootstrap') return []
    const fields = { ...unfilled(entry), ...given, ...source }
    const changed = { do: 'change', id: row.id, status, managed_by: 'bootstrap', ...fields } as const
    return decideWithAliases(fields.aliases, row.aliases, (aliases) => decideModel(state, { ...changed, aliases }))
  }
  if (facts === null) return [] // deleted meanwhile too
  const fields = { ...facts, ...factsBeside(given, facts), ...unfilled(entry), ...given, ...source }
  const made = { do: 'create', id, name, provider_id: provider.id, status, managed_by: 'bootstrap', ...fields } as const
  return decideWithAliases(fields.aliases, [], (aliases) => decideModel(state, { ...made, aliases }))
}

/** Models of seeded providers that have none: what the provider lists, else the well-known ones. */
const usualModelSteps = async (
  { bootstrap }: SeedInput,
  expected: ControlReader,
  deps: SeedDeps,
  report: SeedReport,
): Promise<SeedStep[]> => {
  const listed = new Set((bootstrap.providers ?? []).map(({ name }) => name.toLowerCase()))
  const bare = [...expected.table('providers').rows()]
    .map(([, row]) => row)
    .filter((row) => row.managed_by === 'bootstrap' && row.name === row.kind && !listed.has(row.name.toLowerCase()))
    .filter((row) => expected.table('models').find('provider', row.id).length === 0)
  const steps = await Promise.all(
    bare.map(async (provider) => {
      const commands = await commandsOf(provider, await listingOf(provider, deps, report), 'bootstrap', {
        newModelId: () => deps.newId('mod'),
        factsOf: deps.modelCatalogue.factsOfListed,
      })
      return commands.map((command): SeedStep => {
        const decide = (state: ControlReader) => {
          const provider_id = providerNamed(state, provider.name)?.id
          const isThere = state.table('models').find('natural', naturalKey(provider_id ?? '', command.name)).length > 0
          return provider_id === undefined || isThere ? [] : decideModel(state, { ...command, provider_id })
        }
        return { what: `the model "${command.name}" of "${provider.name}"`, decide }
      })
    }),
  )
  return steps.flat()
}

const listingOf = async (
  provider: ProviderRow,
  { kindTable, modelCatalogue }: SeedDeps,
  report: SeedReport,
): Promise<readonly ListedModel[]> => {
  const known = (WELL_KNOWN[provider.kind] ?? []).map(unknown)
  if (!canList(provider, kindTable)) {
    if (known.length === 0)
      report.notes.push(`the provider "${provider.name}" cannot list what it serves: add its models`)
    return known
  }
  try {
    const models = await modelCatalogue.list(provider, { totalMs: LISTING_MS })
    return models.length === 0 ? known : models
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    report.notes.push(`the provider "${provider.name}" did not list its models: ${error.message}`)
    return known
  }
}
