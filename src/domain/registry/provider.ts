// Providers: where models are served. A secret is a credential, sealed under a data key of its own. Names and fields of
// the events are stored for ever.
import { type Static, t } from '../../lib/schema/schema.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import type { EventRecord } from '../kernel/decision.ts'
import { changedFields, depthOf, Id, ManagedBy, Nullable, Status } from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'
import { baseUrlError } from './base-url.ts'
import { removedTests } from './provider-test.ts'
import { bindingOf, isBoundTo, SecretBinding, sameBinding } from './secret-binding.ts'

/** Fields that may change after creation. Null numbers: the gateway's default. */
const Mutable = {
  kind: t.String({ minLength: 1, maxLength: 64 }),
  base_url: Nullable(t.String({ minLength: 1, maxLength: 2048 })),
  /** Name of the environment variable that holds the secret. */
  api_key_env: Nullable(t.String({ minLength: 1, maxLength: 128 })),
  region: Nullable(t.String({ minLength: 1, maxLength: 64 })),
  timeout_ms: Nullable(t.Integer({ minimum: 1, maximum: 3_600_000 })),
  max_concurrency: Nullable(t.Integer({ minimum: 1, maximum: 1_000_000 })),
  weight: Nullable(t.Number({ minimum: 0, maximum: 1_000_000 })),
  /** Request usage from the provider on streams, and remove it for clients that did not request it. */
  usage_on_stream: t.Boolean(),
  /** Kind-specific (API version, region ...), never secrets; at most 8 KiB as JSON. */
  options: t.Record(t.String({ maxLength: 64 }), t.Unknown()),
}
export const ProviderFields = t.Object(Mutable)
export type ProviderFields = Static<typeof ProviderFields>
/** Defaults of the fields that a provider leaves out. */
export const PROVIDER_DEFAULTS: Omit<ProviderFields, 'kind' | 'base_url'> = {
  api_key_env: null,
  region: null,
  timeout_ms: null,
  max_concurrency: null,
  weight: null,
  usage_on_stream: false,
  options: {},
}
const MAX_OPTIONS_BYTES = 8_192
/** A decision may be nested 32 levels deep in all, or readers would refuse it. */
const MAX_OPTIONS_DEPTH = 16

export const ProviderName = t.String({ minLength: 1, maxLength: 128, pattern: '^[^\\s/,](?:[^/,]*[^\\s/,])?$' })

export const ProviderCreated = t.Object({
  id: Id,
  name: ProviderName,
  status: Status,
  managed_by: ManagedBy,
  ...Mutable,
  /** Where the secret of `api_key_env` may be sent. Absent: to this provider's kind and address. */
  env_bound_to: t.Optional(Nullable(SecretBinding)),
})
/** Only the fields that changed. */
export const ProviderChanged = t.Composite([
  t.Object({
    id: Id,
    managed_by: t.Optional(ManagedBy),
    /** Absent: as before, or, where `api_key_env` changed, to the provider's kind and address after the change. */
    env_bound_to: t.Optional(Nullable(SecretBinding)),
    /** Where the stored secret may be sent from now on. Absent: as before. */
    credential_bound_to: t.Optional(SecretBinding),
    /** The writer asked to take the secrets along to another kind or address. */
    keeps_credential: t.Optional(t.Boolean()),
  }),
  t.Partial(ProviderFields),
])
export const ProviderSwitched = t.Object({ id: Id, managed_by: t.Optional(ManagedBy) })
export const ProviderDeleted = t.Object({ id: Id })
export const CredentialSealed = t.Object({
  provider_id: Id,
  /** Id of the data key in `gateway.keys.v1`. Erasing that key makes `sealed` unreadable for ever. */
  key_id: Id,
  sealed: t.String({ minLength: 1, maxLength: 24_576 }),
  name: Nullable(t.String({ minLength: 1, maxLength: 256 })),
  /** The last four characters of a secret of at least 12, so that people can tell two secrets apart. */
  hint: Nullable(t.String({ maxLength: 8 })),
  /** True when there was a credential before: the audit then has `rotate`. */
  replaces: t.Boolean(),
})
export const CredentialRemoved = t.Object({ provider_id: Id })

export interface Credential {
  readonly key_id: string
  readonly sealed: string
  readonly name: string | null
  readonly hint: string | null
  readonly bound_to: SecretBinding
  readonly created_at: string
  readonly updated_at: string
}

export interface ProviderRow extends Stamps, Readonly<ProviderFields> {
  readonly id: string
  readonly name: string
  readonly status: Status
  readonly managed_by: ManagedBy
  /** Where the secret of `api_key_env` may be sent; null: nowhere, or there is no such variable. */
  readonly env_bound_to: SecretBinding | null
  readonly credential: Credential | null
}

const rows = changesOf<ProviderRow>('providers')
const subject = (data: { id: string }): string => data.id
const ofProvider = (data: { provider_id: string }): string => data.provider_id

export const provider: Aggregate<ProviderRow, ControlReader> = {
  table: 'providers',
  indexes: { name: (row) => row.name.toLowerCase() },
  events: {
    'provider.created': eventType({ schema: ProviderCreated, action: 'create', resource: 'provider', subject }),
    'provider.changed': eventType({
      schema: ProviderChanged,
      action: (data) => (data.keeps_credential === true ? 'keep_credential' : 'update'),
      resource: 'provider',
      subject,
    }),
    'provider.enabled': eventType({ schema: ProviderSwitched, action: 'enable', resource: 'provider', subject }),
    'provider.disabled': eventType({ schema: ProviderSwitched, action: 'disable', resource: 'provider', subject }),
    'provider.deleted': eventType({ schema: ProviderDeleted, action: 'delete', resource: 'provider', subject }),
    'credential.sealed': eventType({
      schema: CredentialSealed,
      action: (data) => (data.replaces ? 'rotate' : 'create'),
      resource: 'credential',
      subject: ofProvider,
    }),
    'credential.removed': eventType({
      schema: CredentialRemoved,
      action: 'delete',
      resource: 'credential',
      subject: ofProvider,
    }),
  },
  evolve(state, { type, data }, meta) {
    const id = (data.id ?? data.provider_id) as string
    const before = state.table('providers').get(id)
    if (type === 'provider.created') {
      const created = data as Static<typeof ProviderCreated>
      const { env_bound_to = boundHere(created) } = created
      return before === undefined ? rows.created(id, { ...created, env_bound_to, credential: null }, meta) : []
    }
    if (before === undefined) return []
    if (type === 'provider.deleted') {
      const models = state.table('models')
      const cascade = models
        .find('provider', id)
        .toSorted() // an index has no order that a fold may depend on
        .map((model) => ({ table: 'models', id: model, before: models.get(model)!, after: null }))
      // Its id never comes back, so no request could be charged to these budgets again.
      const budgets = state.table('budgets')
      const limits = budgets
        .find('provider', id)
        .toSorted()
        .map((budget) => ({ table: 'budgets', id: budget, before: budgets.get(budget)!, after: null }))
      return [...rows.removed(id, before), ...cascade, ...limits, ...removedTests(state, id)]
    }
    if (type === 'credential.removed')
      return before.credential === null ? [] : rows.changed(id, before, { credential: null, managed_by: 'api' }, meta)
    if (type === 'credential.sealed') {
      const { key_id, sealed, name, hint } = data as Static<typeof CredentialSealed>
      const credential: Credential = {
        key_id,
        sealed,
        name,
        hint,
        // The secret was given for the address of this moment.
        bound_to: bindingOf(before),
        created_at: before.credential?.created_at ?? meta.at,
        updated_at: meta.at,
      }
      return rows.changed(id, before, { credential, managed_by: 'api' }, meta)
    }
    const status = type === 'provider.enabled' ? 'active' : type === 'provider.disabled' ? 'disabled' : before.status
    return rows.changed(id, before, { ...changedBy(before, data as Static<typeof ProviderChanged>), status }, meta)
  },
}

/** The binding of a variable that the provider names now. */
const boundHere = (fields: ProviderFields): SecretBinding | null =>
  fields.api_key_env === null ? null : bindingOf(fields)

/** The members of the row that an event changes. */
const changedBy = (
  before: ProviderRow,
  { env_bound_to, credential_bound_to, keeps_credential: _, ...changed }: Static<typeof ProviderChanged>,
): Partial<ProviderRow> => {
  const bound = env_bound_to === undefined ? envBoundAfter(before, changed) : env_bound_to
  const { credential } = before
  if (credential_bound_to === undefined || credential === null) return { ...changed, env_bound_to: bound }
  return { ...changed, env_bound_to: bound, credential: { ...credential, bound_to: credential_bound_to } }
}

/** The binding after an event that does not state it. */
const envBoundAfter = (before: ProviderRow, changed: Partial<ProviderFields>): SecretBinding | null =>
  changed.api_key_env === undefined ? before.env_bound_to : boundHere({ ...before, ...changed })

/** The bindings of a variable that any writer may give; a writer that may give all of them has no such function. */
export type UsualBindings = (variable: string) => readonly SecretBinding[]

/** How a change treats the secrets of the provider. */
interface SecretCommand {
  readonly usualBindings?: UsualBindings
  /** The command names every field: an `api_key_env` that stays the same is not given again. */
  readonly full?: boolean
  /** Binds the secrets to the kind and the address after the change. */
  readonly keepsCredential?: boolean
  /** Binds the secrets as they were bound before. */
  readonly bound?: { readonly env: SecretBinding | null; readonly credential: SecretBinding | null }
}

export type ProviderCommand =
  | ({ do: 'create'; usualBindings?: UsualBindings } & Static<typeof ProviderCreated>)
  /** Absent fields stay as they are; `name` is accepted only so that a change of it can be refused. */
  | ({ do: 'change'; id: string; name?: string; status?: Status; managed_by: ManagedBy } & SecretCommand &
      Partial<ProviderFields>)
  | { do: 'delete'; id: string }
  | { do: 'seal'; provider_id: string; key_id: string; sealed: string; name: string | null; hint: string | null }
  | { do: 'unseal'; provider_id: string }

const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/
const OWN_ENV = /^(?:GATEWAY_.*|MASTER_KEY)$/i

/** Whether a text can name a variable of a provider at all: never one of the gateway's own. */
export const apiKeyEnvIsAllowed = (name: string): boolean => ENV_NAME.test(name) && !OWN_ENV.test(name)

/** Throws 400 for fields that are invalid for a provider of any kind. */
export const requireSoundProvider = (fields: Partial<ProviderFields>): void => {
  const { api_key_env, base_url, options } = fields
  if (api_key_env !== null && api_key_env !== undefined && !apiKeyEnvIsAllowed(api_key_env)) {
    throw new Rejection(
      'invalid',
      'api_key_env must be the name of an environment variable, and not GATEWAY_* or MASTER_KEY',
      'api_key_env',
    )
  }
  if (base_url !== null && base_url !== undefined) {
    const problem = baseUrlError(base_url)
    if (problem !== null) throw new Rejection('invalid', problem, 'base_url')
  }
  if (options !== undefined && Buffer.byteLength(JSON.stringify(options)) > MAX_OPTIONS_BYTES) {
    throw new Rejection('invalid', `options may be at most ${MAX_OPTIONS_BYTES} bytes of JSON`, 'options')
  }
  if (depthOf(options, MAX_OPTIONS_DEPTH + 1) > MAX_OPTIONS_DEPTH) {
    throw new Rejection('invalid', `options may be at most ${MAX_OPTIONS_DEPTH} levels deep`, 'options')
  }
}

/**
 * Whether the writer may use the variable for this provider: where anybody may, and where a provider has it in use
 * already. Otherwise whoever may write providers could have any secret of the environment sent to any address.
 */
const mayBind = (state: ControlReader, variable: string, fields: ProviderFields, usual?: UsualBindings): boolean => {
  if (usual === undefined || usual(variable).some((binding) => isBoundTo(binding, fields))) return true
  return [...state.table('providers').rows()].some(
    ([, row]) => row.api_key_env === variable && isBoundTo(row.env_bound_to, fields),
  )
}

/** The members of the event that bind the secrets otherwise than an event without them. */
const boundMembers = (
  state: ControlReader,
  row: ProviderRow,
  { usualBindings, full, keepsCredential, bound, ...wanted }: SecretCommand & Partial<ProviderFields>,
  changed: Partial<ProviderFields>,
): Partial<Static<typeof ProviderChanged>> => {
  const after = { ...row, ...changed }
  const here = bindingOf(after)
  const variable = after.api_key_env
  const isGiven =
    wanted.api_key_env !== undefined && (full !== true || changed.api_key_env !== undefined) && variable !== null
  const given = (): SecretBinding | null => {
    if (mayBind(state, variable!, after, usualBindings)) return here
    return changed.api_key_env === undefined ? row.env_bound_to : null
  }
  const ownEnv = (): SecretBinding | null =>
    variable === null ? null : keepsCredential ? here : isGiven ? given() : row.env_bound_to
  const env = bound === undefined ? ownEnv() : bound.env
  const credential = bound?.credential ?? (keepsCredential ? here : (row.credential?.bound_to ?? null))
  const moved = row.credential !== null && credential !== null && !sameBinding(credential, row.credential.bound_to)
  const isStated = !sameBinding(env, envBoundAfter(row, changed))
  const keeps = keepsCredential === true && (moved || !sameBinding(env, row.env_bound_to))
  return {
    ...(isStated ? { env_bound_to: env } : {}),
    ...(moved ? { credential_bound_to: credential } : {}),
    ...(keeps ? { keeps_credential: true } : {}),
  }
}

const change = (state: ControlReader, row: ProviderRow, command: ProviderCommand & { do: 'change' }): EventRecord[] => {
  const { do: _, id, name, status, managed_by, usualBindings, full, keepsCredential, bound, ...wanted } = command
  if (name !== undefined && name !== row.name) {
    throw new Rejection('invalid', 'the name of a provider cannot be changed; delete it and create another', 'name')
  }
  // A stored address was checked when it was set, by the rules of that time.
  requireSoundProvider(wanted.base_url === row.base_url ? { ...wanted, base_url: null } : wanted)
  const fields = changedFields<ProviderRow>(row, wanted) as Partial<ProviderFields>
  const secrets = { usualBindings, full, keepsCredential, bound }
  const changed = { ...fields, ...boundMembers(state, row, { ...secrets, ...wanted }, fields) }
  const owner = row.managed_by === managed_by ? {} : { managed_by }
  const events: EventRecord[] = []
  if (Object.keys(changed).length > 0) events.push({ type: 'provider.changed', data: { id, ...changed, ...owner } })
  if (status !== undefined && status !== row.status) {
    events.push({ type: status === 'active' ? 'provider.enabled' : 'provider.disabled', data: { id, ...owner } })
  }
  return events
}

export const decideProvider = (state: ControlReader, command: ProviderCommand): EventRecord[] => {
  const providers = state.table('providers')
  if (command.do === 'create') {
    const { do: _, usualBindings, env_bound_to, ...data } = command
    if (providers.find('name', data.name.toLowerCase()).length > 0) {
      throw new Rejection('conflict', `a provider named "${data.name}" exists already`, 'name')
    }
    requireSoundProvider(data)
    const { api_key_env: variable } = data
    const own = variable === null || mayBind(state, variable, data, usualBindings) ? boundHere(data) : null
    const bound = env_bound_to === undefined ? own : env_bound_to
    const stated = sameBinding(bound, boundHere(data)) ? {} : { env_bound_to: bound }
    return [{ type: 'provider.created', data: { ...data, ...stated } }]
  }
  const id = command.do === 'seal' || command.do === 'unseal' ? command.provider_id : command.id
  const row = providers.get(id)
  if (row === undefined) throw new Rejection('not_found', `no provider has the id "${id}"`)
  if (command.do === 'change') return change(state, row, command)
  if (command.do === 'delete') return [{ type: 'provider.deleted', data: { id } }]
  if (command.do === 'unseal')
    return row.credential === null ? [] : [{ type: 'credential.removed', data: { provider_id: id } }]
  if (row.credential?.key_id === command.key_id) return []
  const { do: _, ...data } = command
  return [{ type: 'credential.sealed', data: { ...data, replaces: row.credential !== null } }]
}
