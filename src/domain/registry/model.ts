// The registry of models: a row is one model at one provider. Names and fields of the events are stored for ever.
import { type Static, t } from '../../lib/schema/schema.ts'
import type { ControlReader } from '../control.ts'
import { type Aggregate, changesOf, eventType, type Stamps } from '../kernel/aggregate.ts'
import type { EventRecord } from '../kernel/decision.ts'
import { changedFields, distinct, Id, ManagedBy, Nullable, Status } from '../kernel/fields.ts'
import { Rejection } from '../kernel/rejection.ts'
import { aliasKeys, requireNoScopeAlias } from './alias.ts'

export const CAPABILITIES = [
  'chat',
  'streaming',
  'tools',
  'json_mode',
  'json_schema',
  'parallel_tool',
  'seed',
  'vision',
] as const
export const DEFAULT_PRIORITY = 100

/** A model's name may hold slashes, colons and dots, but no white space at its ends and no control characters. */
export const ModelName = t.String({
  minLength: 1,
  maxLength: 256,
  pattern: '^[^\\s\\u0000-\\u001f](?:[^\\u0000-\\u001f]*[^\\s\\u0000-\\u001f])?$',
})
const Tokens = Nullable(t.Integer({ minimum: 1, maximum: 1_000_000_000 }))
/** USD per million tokens; null: unknown, which is not zero. */
const Price = Nullable(t.Number({ minimum: 0, maximum: 1_000_000 }))

const TierPrice = t.Number({ minimum: 0, maximum: 1_000_000 })
/**
 * The prices of a whole request when its prompt is longer than so many tokens, cached ones included. USD per million
 * tokens.
 */
export const PriceTier = t.Object({
  above_prompt_tokens: t.Integer({ minimum: 1, maximum: 1_000_000_000 }),
  input_cost_per_million: TierPrice,
  output_cost_per_million: TierPrice,
  cached_input_cost_per_million: Price,
})
export type PriceTier = Static<typeof PriceTier>

const Mutable = {
  /** The model's name at the provider. */
  upstream_model: ModelName,
  /** Lower goes first. */
  priority: t.Integer({ minimum: -1_000_000, maximum: 1_000_000 }),
  aliases: t.Array(ModelName, { maxItems: 32 }),
  context_window: Tokens,
  max_output_tokens: Tokens,
  input_cost_per_million: Price,
  output_cost_per_million: Price,
  cached_input_cost_per_million: Price,
  /** In rising order. Null or absent: one price for prompts of every length. */
  price_tiers: t.Optional(Nullable(t.Array(PriceTier, { maxItems: 8 }))),
  capabilities: t.Array(t.String({ minLength: 1, maxLength: 64 }), { maxItems: 32 }),
  /** Source of the capabilities: `operator`, `provider`, `catalogue`, `detected`, `kind`. */
  capability_source: t.String({ minLength: 1, maxLength: 32 }),
}
export const ModelFields = t.Object(Mutable)
export type ModelFields = Static<typeof ModelFields>

export const ModelCreated = t.Object({
  id: Id,
  name: ModelName,
  provider_id: Id,
  status: Status,
  managed_by: ManagedBy,
  ...Mutable,
})
/** Only the fields that changed. */
export const ModelChanged = t.Composite([
  t.Object({ id: Id, managed_by: t.Optional(ManagedBy) }),
  t.Partial(ModelFields),
])
export const ModelSwitched = t.Object({ id: Id, managed_by: t.Optional(ManagedBy) })
export const ModelDeleted = t.Object({ id: Id })

export interface ModelRow extends Stamps, Readonly<ModelFields> {
  readonly id: string
  readonly name: string
  readonly provider_id: string
  readonly status: Status
  readonly managed_by: ManagedBy
}

/** Index key of the natural key: one row for a name at a provider, compared without case. */
export const naturalKey = (providerId: string, name: string): string => `${providerId}/${name.toLowerCase()}`

const rows = changesOf<ModelRow>('models')
const subject = (data: { id: string }): string => data.id

export const model: Aggregate<ModelRow, ControlReader> = {
  table: 'models',
  indexes: {
    name: (row) => row.name.toLowerCase(),
    provider: (row) => row.provider_id,
    natural: (row) => naturalKey(row.provider_id, row.name),
    alias: aliasKeys,
  },
  events: {
    'model.created': eventType({ schema: ModelCreated, action: 'create', resource: 'model', subject }),
    'model.changed': eventType({ schema: ModelChanged, action: 'update', resource: 'model', subject }),
    'model.enabled': eventType({ schema: ModelSwitched, action: 'enable', resource: 'model', subject }),
    'model.disabled': eventType({ schema: ModelSwitched, action: 'disable', resource: 'model', subject }),
    'model.deleted': eventType({ schema: ModelDeleted, action: 'delete', resource: 'model', subject }),
  },
  evolve(state, { type, data }, meta) {
    const id = data.id as string
    const before = state.table('models').get(id)
    if (type === 'model.created')
      return before === undefined ? rows.created(id, data as Static<typeof ModelCreated>, meta) : []
    if (before === undefined) return []
    if (type === 'model.deleted') return rows.removed(id, before)
    const status = type === 'model.enabled' ? 'active' : type === 'model.disabled' ? 'disabled' : before.status
    return rows.changed(id, before, { ...(data as Static<typeof ModelChanged>), status }, meta)
  },
}

export type ModelCommand =
  | ({ do: 'create' } & Static<typeof ModelCreated>)
  /**
   * Absent fields stay as they are; `name` and `provider_id` are accepted only so that a change of them can be refused.
   */
  | ({
      do: 'change'
      id: string
      name?: string
      provider_id?: string
      status?: Status
      managed_by: ManagedBy
    } & Partial<ModelFields>)
  | { do: 'delete'; id: string }

/**
 * Throws a conflict when one of these aliases is the name of another model, when this name is an alias of one, or when
 * either is an alias of an endpoint scope. Compared without case.
 */
const requireDistinct = (state: ControlReader, name: string, aliases: readonly string[], newName: boolean): void => {
  const models = state.table('models')
  const own = name.toLowerCase()
  requireNoScopeAlias(state, aliases, 'aliases')
  for (const alias of aliases) {
    const word = alias.toLowerCase()
    if (word !== own && models.find('name', word).length > 0) {
      throw new Rejection('conflict', `the alias "${alias}" is the name of another model`, 'aliases')
    }
  }
  if (!newName || models.find('name', own).length > 0) return // a name in use was checked when it was set
  requireNoScopeAlias(state, [name], 'name')
  const [other] = models.findRows('alias', own)
  if (other !== undefined)
    throw new Rejection('conflict', `the name "${name}" is an alias of the model "${other.name}"`, 'name')
}

/** Without repeats and without the model's own name, which is found in any case. */
const cleanAliases = (name: string, aliases: readonly string[]): string[] =>
  distinct(aliases).filter((alias) => alias.toLowerCase() !== name.toLowerCase())

/** In rising order; refuses two tiers for one length. Null for none. */
export const orderedTiers = (tiers: ModelFields['price_tiers']): { price_tiers?: ModelFields['price_tiers'] } => {
  if (tiers === undefined) return {}
  if (tiers === null || tiers.length === 0) return { price_tiers: null }
  const ordered = tiers.toSorted((a, b) => a.above_prompt_tokens - b.above_prompt_tokens)
  for (let i = 1; i < ordered.length; i++) {
    const { above_prompt_tokens } = ordered[i]!
    if (above_prompt_tokens === ordered[i - 1]!.above_prompt_tokens)
      throw new Rejection('invalid', `two tiers are for prompts above ${above_prompt_tokens} tokens`, 'price_tiers')
  }
  return { price_tiers: ordered }
}

const PRICES = ['input_cost_per_million', 'output_cost_per_million', 'cached_input_cost_per_million'] as const

const change = (state: ControlReader, row: ModelRow, command: ModelCommand & { do: 'change' }): EventRecord[] => {
  const { do: _, id, name, provider_id, status, managed_by, ...wanted } = command
  if (name !== undefined && name !== row.name)
    throw new Rejection('invalid', 'the name of a model cannot be changed', 'name')
  if (provider_id !== undefined && provider_id !== row.provider_id) {
    throw new Rejection('invalid', 'a model cannot be moved to another provider', 'provider_id')
  }
  const aliases = wanted.aliases === undefined ? {} : { aliases: cleanAliases(row.name, wanted.aliases) }
  const ofWanted = changedFields<ModelRow>(row, { ...wanted, ...aliases, ...orderedTiers(wanted.price_tiers) })
  // A new price without tiers of its own holds for prompts of every length, and cached tokens cost the same as others:
  // the former tiers and cache prices belonged to the former price.
  const orphans = {
    ...(wanted.price_tiers === undefined && PRICES.some((field) => ofWanted[field] !== undefined)
      ? { price_tiers: null }
      : {}),
    ...(wanted.cached_input_cost_per_million === undefined && ofWanted.input_cost_per_million !== undefined
      ? { cached_input_cost_per_million: null }
      : {}),
  }
  const changed = { ...ofWanted, ...changedFields<ModelRow>(row, orphans) }
  if (changed.aliases !== undefined) requireDistinct(state, row.name, changed.aliases, false)
  const owner = row.managed_by === managed_by ? {} : { managed_by }
  const events: EventRecord[] = []
  if (Object.keys(changed).length > 0) events.push({ type: 'model.changed', data: { id, ...changed, ...owner } })
  if (status !== undefined && status !== row.status) {
    events.push({ type: status === 'active' ? 'model.enabled' : 'model.disabled', data: { id, ...owner } })
  }
  return events
}

export const decideModel = (state: ControlReader, command: ModelCommand): EventRecord[] => {
  const models = state.table('models')
  if (command.do === 'create') {
    const { do: _, ...data } = command
    const provider = state.table('providers').get(data.provider_id)
    if (provider === undefined)
      throw new Rejection('not_found', `no provider has the id "${data.provider_id}"`, 'provider_id')
    if (models.find('natural', naturalKey(data.provider_id, data.name)).length > 0) {
      throw new Rejection(
        'conflict',
        `the provider "${provider.name}" has a model named "${data.name}" already`,
        'name',
      )
    }
    const aliases = cleanAliases(data.name, data.aliases)
    requireDistinct(state, data.name, aliases, true)
    return [
      {
        type: 'model.created',
        data: { ...data, ...orderedTiers(data.price_tiers), aliases, capabilities: distinct(data.capabilities) },
      },
    ]
  }
  const row = models.get(command.id)
  if (row === undefined) throw new Rejection('not_found', `no model has the id "${command.id}"`)
  return command.do === 'delete' ? [{ type: 'model.deleted', data: { id: row.id } }] : change(state, row, command)
}
