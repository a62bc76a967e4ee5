// Names of models and providers in policies and endpoint scopes. They may be used before they exist
// (docs/decisions/0015): a write of a name that does not exist gets a warning.
import { nearest } from '../lib/text/nearest.ts'
import type { ControlReader } from './control.ts'
import { wordsOfModels } from './registry/alias.ts'
import type { EndpointOverrides } from './steering/endpoint.ts'
import type { PolicyFields } from './steering/policy.ts'

interface Reference {
  readonly field: string
  readonly to: 'model' | 'provider'
  readonly names: readonly string[] | undefined
}

/** A write returns at most so many warnings; the last line then counts the rest. */
const MOST_WARNINGS = 16

/** One line for each name in a policy that does not exist. */
export const policyWarnings = (state: ControlReader, policy: PolicyFields): string[] => {
  const { models, providers, fallback, sensitivity } = policy
  return warningsOf(state, [
    { field: 'models', to: 'model', names: models },
    { field: 'providers.only', to: 'provider', names: providers.only },
    { field: 'providers.order', to: 'provider', names: providers.order },
    { field: 'providers.ignore', to: 'provider', names: providers.ignore },
    { field: 'fallback.models', to: 'model', names: fallback.models },
    { field: 'fallback.context_window_models', to: 'model', names: fallback.context_window_models },
    { field: 'sensitivity.pii.providers', to: 'provider', names: sensitivity.pii?.providers },
    { field: 'sensitivity.phi.providers', to: 'provider', names: sensitivity.phi?.providers },
    { field: 'sensitivity.public.providers', to: 'provider', names: sensitivity.public?.providers },
  ])
}

/** The aliases of an endpoint scope that a model has taken since: requests for them no longer reach the scope. */
export const shadowedAliases = (state: ControlReader, aliases: readonly string[]): string[] =>
  wordsOfModels(state, aliases).map(
    (alias) =>
      `aliases: "${alias}" is the name or an alias of a model now, which is found first: it does not select this scope`,
  )

/** The same for an endpoint scope. It includes a forced model that was deleted since. */
export const endpointWarnings = (state: ControlReader, overrides: EndpointOverrides): string[] => {
  const { forced_model: forced, preferred_models, preferred_providers } = overrides
  return warningsOf(state, [
    { field: 'overrides.forced_model', to: 'model', names: forced === null ? [] : [forced] },
    { field: 'overrides.preferred_models', to: 'model', names: preferred_models },
    { field: 'overrides.preferred_providers', to: 'provider', names: preferred_providers },
  ])
}

const warningsOf = (state: ControlReader, references: readonly Reference[]): string[] => {
  const warnings: string[] = []
  let more = 0
  const models = references.some(({ to, names = [] }) => to === 'model' && names.length > 0) ? modelWords(state) : null
  for (const { field, to, names = [] } of references) {
    for (const name of names) {
      const word = name.toLowerCase()
      if (
        to === 'provider' ? isProvider(state, name) : models!.has(word) || state.table('models').get(name) !== undefined
      )
        continue
      if (warnings.length === MOST_WARNINGS) more++
      else warnings.push(`${field}: ${unknownNameText(state, to, name)}`)
    }
  }
  return more === 0 ? warnings : [...warnings, `and ${more} more`]
}

/** Whether a provider has this name or id. */
const isProvider = (state: ControlReader, text: string): boolean =>
  state.table('providers').get(text) !== undefined ||
  state.table('providers').find('name', text.toLowerCase()).length > 0

/** The warning that no model or provider has this name, with the nearest name that exists. */
export const unknownNameText = (state: ControlReader, what: Reference['to'], name: string): string => {
  const nearestName = nearest(name, what === 'model' ? modelNames(state) : providerNames(state))
  const hint = nearestName === null ? '' : `; did you mean "${nearestName}"?`
  return `no ${what} has the ${what === 'model' ? 'name, alias' : 'name'} or id "${name}"${hint}`
}

const modelWords = (state: ControlReader): ReadonlySet<string> =>
  new Set([...modelNames(state)].map((name) => name.toLowerCase()))

function* modelNames(state: ControlReader): Generator<string> {
  for (const [, { name, aliases }] of state.table('models').rows()) {
    yield name
    yield* aliases
  }
}

function* providerNames(state: ControlReader): Generator<string> {
  for (const [, { name }] of state.table('providers').rows()) yield name
}
