// Where the secret of a provider may be sent: to the kind and the origins that it was given for. A provider whose kind
// or address changes does not take its secret along.
import { type Static, t } from '../../lib/schema/schema.ts'

export const SecretBinding = t.Object({
  kind: t.String({ minLength: 1, maxLength: 64 }),
  origins: t.Array(t.String({ minLength: 1, maxLength: 2_048 }), { maxItems: 64 }),
})
export type SecretBinding = Static<typeof SecretBinding>

/** The fields of a provider that say where it is called. */
export interface Destination {
  readonly kind: string
  readonly base_url: string | null
  readonly options: Readonly<Record<string, unknown>>
}

const DEFAULT_PORT = /^(?:(http:\/\/.*):80|(https:\/\/.*):443)$/

/**
 * Scheme, host and port of an address, from its text alone: the fold depends on it, and the URL parser of a later
 * runtime may differ. Two spellings of one origin count as two.
 */
export const originOf = (text: string): string => {
  const origin = (/^https?:\/\/[^/?#]*/i.exec(text)?.[0] ?? text).toLowerCase()
  const [, http, https] = DEFAULT_PORT.exec(origin) ?? []
  return http ?? https ?? origin
}

/** Options that hold the address of a further service which gets the secret too (`control_url` of Bedrock). */
const isAddress = ([name, value]: readonly [string, unknown]): boolean =>
  name.endsWith('_url') && typeof value === 'string' && value !== ''

/** The kind and the origins of a provider as it is now. */
export const bindingOf = ({ kind, base_url, options }: Destination): SecretBinding => {
  const others = Object.entries(options ?? {})
    .filter(isAddress)
    .map(([, value]) => originOf(value as string))
  const all = typeof base_url === 'string' ? [originOf(base_url), ...others] : others
  return { kind, origins: [...new Set(all)].sort() }
}

/** Whether a secret with this binding may be sent to everything that the provider calls. */
export const isBoundTo = (binding: SecretBinding | null, provider: Destination): boolean => {
  if (binding === null || binding.kind !== provider.kind) return false
  return bindingOf(provider).origins.every((origin) => binding.origins.includes(origin))
}

export const sameBinding = (left: SecretBinding | null, right: SecretBinding | null): boolean =>
  left === right ||
  (left !== null && right !== null && left.kind === right.kind && left.origins.join(' ') === right.origins.join(' '))

const placeOf = (binding: SecretBinding | null): string =>
  binding === null
    ? 'it was not given for this address'
    : `it was given for ${[binding.kind, ...binding.origins].join(' at ')}`

interface Secrets extends Destination {
  readonly api_key_env: string | null
  readonly env_bound_to: SecretBinding | null
  readonly credential: { readonly bound_to: SecretBinding } | null
}

/**
 * Which secret of the provider is out of use, and why; null: none is. A variable that may be sent and has a value goes
 * before the credential, which is then not needed. `hasVariable`: whether the environment holds a variable.
 */
export const withheldSecret = (row: Secrets, hasVariable: (name: string) => boolean): string | null => {
  const { api_key_env, env_bound_to, credential } = row
  const isEnvBound = api_key_env !== null && isBoundTo(env_bound_to, row)
  if (isEnvBound && hasVariable(api_key_env)) return null
  if (credential !== null && !isBoundTo(credential.bound_to, row))
    return `the credential is out of use: ${placeOf(credential.bound_to)}; give it again`
  if (credential === null && api_key_env !== null && !isEnvBound)
    return `${api_key_env} is out of use: ${placeOf(env_bound_to)}; name it again by PATCH with the scope "*"`
  return null
}
