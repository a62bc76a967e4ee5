// One name space for clients: `model` of a request is a model's name, a model's alias or an endpoint scope's alias,
// tried in this order. An alias is refused when the registry has that word. A model is refused a word of global
// endpoint scopes alone: the scopes of a single tenant block no other caller, and are not disclosed.
import type { ControlReader } from '../control.ts'
import { Rejection } from '../kernel/rejection.ts'
import type { IndexKeys } from '../kernel/tables.ts'

/**
 * Throws a conflict when one of the words is an alias of a global endpoint scope: requests for that alias would change
 * their meaning. A tenant's own alias has lower priority instead.
 */
export const requireNoScopeAlias = (state: ControlReader, words: readonly string[], param: string): void => {
  if (words.length === 0) return
  const endpoints = state.table('endpoints')
  for (const word of words) {
    const other = endpoints.findRows('alias', word.toLowerCase()).find(({ tenant_id }) => tenant_id === null)
    if (other === undefined) continue
    const taken = other.aliases.find((alias) => alias.toLowerCase() === word.toLowerCase())
    throw new Rejection('conflict', `"${taken}" is an alias of the endpoint scope "${other.slug}"`, param)
  }
}

/**
 * Throws a conflict when one of the words is the name or an alias of a model of the registry, which takes precedence.
 */
export const requireNoModelName = (state: ControlReader, words: readonly string[], param: string): void => {
  if (words.length === 0) return
  const models = state.table('models')
  for (const word of words) {
    if (models.find('name', word.toLowerCase()).length > 0)
      throw new Rejection('conflict', `"${word}" is the name of a model`, param)
  }
  for (const word of words) {
    const [other] = models.findRows('alias', word.toLowerCase())
    if (other === undefined) continue
    const taken = other.aliases.find((alias) => alias.toLowerCase() === word.toLowerCase())
    throw new Rejection('conflict', `"${taken}" is an alias of the model "${other.name}"`, param)
  }
}

/** Those of the words that requests use for a model of the registry, which takes precedence. */
export const wordsOfModels = (state: ControlReader, words: readonly string[]): string[] => {
  const models = state.table('models')
  const isWord = (word: string) => models.find('name', word).length > 0 || models.find('alias', word).length > 0
  return words.filter((word) => isWord(word.toLowerCase()))
}

/** Whether the registry has a model of this name, alias or id. */
export const isModel = (state: ControlReader, text: string): boolean => {
  const models = state.table('models')
  const word = text.toLowerCase()
  return models.get(text) !== undefined || models.find('name', word).length > 0 || models.find('alias', word).length > 0
}

/** Index keys of rows: their aliases, without case. */
export const aliasKeys = ({ aliases }: { readonly aliases: readonly string[] }): IndexKeys =>
  aliases.length === 0 ? null : aliases.map((alias) => alias.toLowerCase())
