// `provider:<name>/<model>`: how people name one row of the registry of models, where rows have its id. A bare name
// means the rows of every provider that serves it.

import type { ControlReader } from '../control.ts'
import { Rejection } from '../kernel/rejection.ts'
import { isModel } from './alias.ts'
import { naturalKey } from './model.ts'

/** A provider's name holds no slash, a model's may. */
const ROW = /^provider:([^/]+)\/(.+)$/s

/**
 * The stored form of a model reference: the id of the row that `provider:<name>/<model>` names. Any other text stays as
 * it is, also while there is no such row.
 */
export const modelOf = (state: ControlReader, text: string): string => {
  const [, providerName, name] = ROW.exec(text) ?? []
  if (providerName === undefined || isModel(state, text)) return text
  const [providerId] = state.table('providers').find('name', providerName.toLowerCase())
  if (providerId === undefined) return text
  return state.table('models').find('natural', naturalKey(providerId, name!))[0] ?? text
}

/**
 * Whether a text refers to one row, existing or not. Stored unchanged in a row, it would be a name that no model has.
 */
export const refersToRow = (state: ControlReader, text: string): boolean => ROW.test(text) && !isModel(state, text)

/**
 * The stored form of a client's model references. Throws 400 for text that refers to one row where there is none:
 * stored, it would be a name that no model has, and would mean something else in an exported file. A reference that was
 * in the row `before` stays as it is.
 */
export const storedModels = (
  state: ControlReader,
  texts: readonly string[],
  before: readonly string[],
  param: string,
): string[] =>
  texts.map((text) => {
    if (before.includes(text)) return text
    const stored = modelOf(state, text)
    if (stored === text && refersToRow(state, text)) throw new Rejection('invalid', noRow(state, text), param)
    return stored
  })

const noRow = (state: ControlReader, text: string): string => {
  const [, provider, name] = ROW.exec(text)!
  const isProvider = state.table('providers').find('name', provider!.toLowerCase()).length > 0
  const why = isProvider ? `the provider "${provider}" has no model "${name}"` : `there is no provider "${provider}"`
  return `"${text}" names one model of one provider, and ${why}`
}
