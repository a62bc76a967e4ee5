// The provider kinds as the admin API and the seeder use them: by any of their names, and as a list.
import { Nullable } from '../../domain/kernel/fields.ts'
import { apiKeyEnvIsAllowed, type ProviderFields, type UsualBindings } from '../../domain/registry/provider.ts'
import { bindingOf } from '../../domain/registry/secret-binding.ts'
import { firstError } from '../../lib/schema/first-error.ts'
import { type TSchema, t } from '../../lib/schema/schema.ts'
import type { ProviderKind } from '../../providers/port.ts'

export interface KindTable {
  /** The kind of this name; hyphens, capitals and the names that other gateways use are accepted. */
  resolve(text: string): ProviderKind | null
  /** Canonical names, in the order of the documentation. */
  readonly names: readonly string[]
  /** `security.env_bindings`: further variables that a provider may name. */
  readonly envBindings?: readonly string[]
}

/** The usual variable of a kind, or that name with a suffix: `OPENAI_API_KEY_EU`. */
const isUsual = (usual: string | null, name: string): boolean =>
  usual !== null && (name === usual || (name.startsWith(`${usual}_`) && name.length > usual.length + 1))

const PREFIX = /^PROVIDER_./

const kindsOf = (variable: string, { names, resolve }: KindTable): ProviderKind[] =>
  names.flatMap((name) => {
    const kind = resolve(name)
    return kind !== null && isUsual(kind.usualEnv, variable) ? [kind] : []
  })

/** Whether a provider may name this variable: others may hold secrets that are not for providers. */
export const envIsAllowed = (variable: string, kinds: KindTable): boolean =>
  apiKeyEnvIsAllowed(variable) &&
  (PREFIX.test(variable) || kinds.envBindings?.includes(variable) === true || kindsOf(variable, kinds).length > 0)

/** Why a provider may not name this variable; null: it may. */
export const envProblem = (
  variable: string | null | undefined,
  kinds: KindTable,
): { readonly message: string; readonly param: string } | null => {
  if (variable == null || envIsAllowed(variable, kinds)) return null
  const message =
    `api_key_env cannot be "${variable}": it must be the usual variable of a kind (OPENAI_API_KEY, or with a suffix ` +
    'OPENAI_API_KEY_EU), begin with PROVIDER_, or stand in security.env_bindings; GATEWAY_* and MASTER_KEY never'
  return { message, param: 'api_key_env' }
}

/** Where any writer of providers may send the secret of a usual variable: to its kind at the address of that kind. */
export const usualBindings =
  (kinds: KindTable): UsualBindings =>
  (variable) =>
    kindsOf(variable, kinds).flatMap(({ kind, defaultBaseUrl }) =>
      defaultBaseUrl === null ? [] : [bindingOf({ kind, base_url: defaultBaseUrl, options: {} })],
    )

/** Whether a kind needs an address: those that answer in process have none. */
export const needsBaseUrl = (kind: ProviderKind): boolean => kind.script === undefined

const optionSchemas = new WeakMap<ProviderKind, TSchema>()

/** `{ options }` of such a provider. */
const optionsOf = (kind: ProviderKind): TSchema => {
  const known = optionSchemas.get(kind)
  if (known !== undefined) return known
  const members = Object.entries(kind.options ?? {}).map(([name, schema]) => [name, t.Optional(Nullable(schema))])
  const made = t.Object({ options: t.Object(Object.fromEntries(members)) })
  optionSchemas.set(kind, made)
  return made
}

/**
 * Why the fields do not suit a provider of this kind, with the field to blame; null: they do. Unknown options are
 * refused: a misspelt one would be ignored for ever, and a secret in it would stand in the log.
 */
export const providerProblem = (
  kind: ProviderKind,
  { base_url, region, options }: Pick<ProviderFields, 'base_url' | 'region' | 'options'>,
): { readonly message: string; readonly param: string } | null => {
  if (base_url === null && needsBaseUrl(kind))
    return { message: `"base_url" is required for the kind "${kind.kind}"`, param: 'base_url' }
  const known = Object.keys(kind.options ?? {})
  const unknown = Object.keys(options).find((name) => !known.includes(name))
  if (unknown !== undefined) {
    const has = known.length === 0 ? 'it has none' : `it has ${known.join(', ')}`
    const problem = `the kind "${kind.kind}" has no option "${unknown}"`
    const message = `${problem}; ${has}. A secret is a credential, never an option`
    return { message, param: `options.${unknown}` }
  }
  const problem = firstError(optionsOf(kind), { options })
  if (problem !== null) return { ...problem, param: problem.param.replace(/(?:\.\d+)+$/, '') }
  return kind.problem?.({ baseUrl: base_url ?? '', region, options }) ?? null
}
