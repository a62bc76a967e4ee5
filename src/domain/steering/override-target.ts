// Target and value of an override: every accepted spelling is normalised to the stored one.
import { usdOf } from '../../lib/money.ts'
import { Value } from '../../lib/schema/schema.ts'
import { capNanoUsd } from '../budgets/cap.ts'
import type { ControlReader } from '../control.ts'
import { Rejection } from '../kernel/rejection.ts'
import { unknownNameText } from '../references.ts'
import { isModel } from '../registry/alias.ts'
import { ModelName } from '../registry/model.ts'
import { modelOf } from '../registry/model-row.ts'

export const OVERRIDE_KINDS = ['kill', 'block', 'cap', 'force', 'disable', 'freeze'] as const
export type OverrideKind = (typeof OVERRIDE_KINDS)[number]

export const FEATURES = ['cache', 'fallback', 'tools', 'gateway_execution'] as const
export type Feature = (typeof FEATURES)[number]

/** Kind -> permitted targets. `*`: everything, the default. */
const TARGETS: Readonly<Record<OverrideKind, readonly string[]>> = {
  kill: ['provider', '*'],
  block: ['model', 'key', 'tool', 'endpoint'],
  cap: ['*', 'provider', 'model', 'key', 'endpoint'],
  force: ['*', 'model', 'key', 'endpoint'],
  disable: ['*', 'model', 'key', 'endpoint'],
  freeze: ['*'],
}
const SHAPES: Readonly<Record<string, string>> = {
  provider: 'provider:<id>',
  model: 'model:<name>',
  key: 'key:<id>',
  tool: 'tool:<name>',
  endpoint: 'endpoint:<slug>',
}
const MAX_NAME = 256

/** The kind, or 400 with the list. */
export const overrideKindOf = (text: string): OverrideKind => {
  const kind = OVERRIDE_KINDS.find((each) => each === text)
  if (kind !== undefined) return kind
  throw new Rejection('invalid', `unknown kind "${text}"; the kinds are ${OVERRIDE_KINDS.join(', ')}`, 'kind')
}

/** A provider by its id or name; undefined when there is none. */
const providerIdOf = (state: ControlReader, text: string): string | undefined => {
  const providers = state.table('providers')
  return providers.get(text)?.id ?? providers.find('name', text.toLowerCase())[0]
}

const wrongTarget = (kind: OverrideKind): Rejection => {
  const possible = TARGETS[kind].map((word) => SHAPES[word] ?? word).join(', ')
  return new Rejection('invalid', `"target" of the kind "${kind}" must be one of ${possible}`, 'target')
}

/** `provider` and its rest; the whole text when it has no known prefix. */
const partsOf = (text: string): { word: string | null; rest: string } => {
  const colon = text.indexOf(':')
  const word = colon < 0 ? '' : text.slice(0, colon).toLowerCase()
  return Object.hasOwn(SHAPES, word) ? { word, rest: text.slice(colon + 1).trim() } : { word: null, rest: text }
}

/**
 * The target without its prefix, `*` for everything. `isProvider`: whether a text without a prefix is a provider.
 * Throws 400 for a target that the kind does not permit.
 */
const wordsOf = (
  kind: OverrideKind,
  given: string | null,
  isProvider: (text: string) => boolean,
): { readonly word: string; readonly rest: string } => {
  const text = given?.trim() ?? ''
  const possible = TARGETS[kind]
  if (text === '*' || (text === '' && kind !== 'kill')) {
    if (possible.includes('*')) return { word: '*', rest: '' }
    throw wrongTarget(kind)
  }
  let { word, rest } = partsOf(text)
  if (word === null && text !== '' && (kind === 'kill' || isProvider(text))) word = 'provider'
  if (word === null || rest === '' || rest.length > MAX_NAME || !possible.includes(word)) throw wrongTarget(kind)
  return { word, rest }
}

/** Throws 400 for a target that this kind does not permit in any state. */
export const requirePossibleTarget = (kind: OverrideKind, given: string | null): void => {
  wordsOf(kind, given, () => true)
}

/**
 * The target as it is stored: a provider by its id, names and slugs in lower case. `enabled`: an id must exist; a
 * command that takes an override back may name a deleted one. Names of models, tools and slugs need not exist yet: a
 * guard may precede the row that it guards against.
 */
export const targetOf = (state: ControlReader, kind: OverrideKind, given: string | null, enabled: boolean): string => {
  const { word, rest } = wordsOf(kind, given, (text) => providerIdOf(state, text) !== undefined)
  if (word === '*') return word
  if (word === 'provider') {
    const id = providerIdOf(state, rest)
    if (id === undefined && enabled) throw new Rejection('not_found', `no provider has the id "${rest}"`, 'target')
    return `provider:${id ?? rest}`
  }
  if (word === 'key') {
    if (enabled && state.table('keys').get(rest) === undefined)
      throw new Rejection('not_found', `no key has the id "${rest}"`, 'target')
    return `key:${rest}`
  }
  if (word === 'tool') return `tool:${rest}`
  const name = word === 'model' ? (state.table('models').get(rest)?.name ?? rest) : rest
  return `${word}:${name.toLowerCase()}`
}

/**
 * Refuses an override of one tenant about a key of another: it would have no effect, and would disclose that id to the
 * tenant.
 */
export const requireOwnKey = (state: ControlReader, target: string, tenantId: string | null): void => {
  if (tenantId === null || !target.startsWith('key:')) return
  const owner = state.table('keys').get(target.slice('key:'.length))?.tenant_id
  if (owner === undefined || owner === tenantId) return
  throw new Rejection(
    'invalid',
    'the key is one of another tenant: "tenant_id" must be its tenant, or null',
    'tenant_id',
  )
}

/** The value of an override. At most one member is set, by its kind. */
export interface OverrideValue {
  readonly max_cost_usd?: number
  readonly model?: string
  readonly features?: readonly string[]
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === 'object' && !Array.isArray(value)

/** The members of `value`; refuses a value that is no object, and unknown members. */
const membersOf = (value: unknown, name: string, example: string): unknown => {
  if (!isObject(value) || value[name] === undefined) {
    throw new Rejection('invalid', `"value" must be ${example}`, isObject(value) ? `value.${name}` : 'value')
  }
  const other = Object.keys(value).find((each) => each !== name)
  if (other !== undefined) throw new Rejection('invalid', `"value.${other}" is not known here`, `value.${other}`)
  return value[name]
}

const capOf = (value: unknown): OverrideValue => {
  const cap = membersOf(value, 'max_cost_usd', 'an object like {"max_cost_usd": 0.5}')
  if (typeof cap !== 'number' || !(cap >= 0 && cap <= 1_000_000))
    throw new Rejection('invalid', '"value.max_cost_usd" must be a number from 0 to 1000000', 'value.max_cost_usd')
  return { max_cost_usd: usdOf(capNanoUsd(cap, 'value.max_cost_usd')) }
}

const forceOf = (value: unknown): OverrideValue => {
  const model = membersOf(value, 'model', 'an object like {"model": "<name>"}')
  if (!Value.Check(ModelName, model))
    throw new Rejection('invalid', '"value.model" must be the name of a model', 'value.model')
  return { model }
}

/** A word, a list of words, `{feature}` or `{features}`. */
const disableOf = (value: unknown): OverrideValue => {
  const word = typeof value === 'string' ? value : isObject(value) && 'feature' in value ? value.feature : undefined
  const given =
    word !== undefined
      ? [word]
      : Array.isArray(value)
        ? value
        : membersOf(value, 'features', `an object like {"features": ["${FEATURES[0]}"]}`)
  const features = FEATURES.filter((each) => Array.isArray(given) && given.includes(each))
  if (!Array.isArray(given) || given.length === 0 || given.some((one) => !FEATURES.includes(one as Feature))) {
    throw new Rejection('invalid', `"value.features" must list some of ${FEATURES.join(', ')}`, 'value.features')
  }
  return { features }
}

/** The value of an override of this kind, with models as they are stored. Throws 400 for an invalid value. */
export const soundValueOf = (kind: OverrideKind, value: unknown): OverrideValue | null => {
  if (kind === 'cap') return capOf(value)
  if (kind === 'force') return forceOf(value)
  if (kind === 'disable') return disableOf(value)
  if (value === null || value === undefined || (isObject(value) && Object.keys(value).length === 0)) return null
  throw new Rejection('invalid', `the kind "${kind}" takes no value`, 'value')
}

/** The value as it is stored. A row that takes an override back has none: null. */
export const overrideValueOf = (
  state: ControlReader,
  kind: OverrideKind,
  value: unknown,
  enabled: boolean,
): OverrideValue | null => {
  const sound = enabled ? soundValueOf(kind, value) : null
  if (sound?.model === undefined) return sound
  const model = modelOf(state, sound.model)
  if (!isModel(state, model))
    throw new Rejection('invalid', unknownNameText(state, 'model', sound.model), 'value.model')
  return { model }
}
