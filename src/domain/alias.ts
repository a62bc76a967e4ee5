// One space of names for clients: what stands as `model` in a request is a model's name, a model's alias or an endpoint scope's alias, never two of them.
import type { ControlReader } from './control.ts'
import { Rejection } from './rejection.ts'

/** Throws a conflict when one of the words is an alias of an endpoint scope: requests for that alias would change their meaning. */
export const requireNoScopeAlias = (state: ControlReader, words: readonly string[], param: string): void => {
  if (words.length === 0) return
  const wanted = new Set(words.map((word) => word.toLowerCase()))
  for (const [, { slug, aliases }] of state.table('endpoints').rows()) {
    const taken = aliases.find((alias) => wanted.has(alias.toLowerCase()))
    if (taken !== undefined) {
      throw new Rejection('conflict', `"${taken}" is an alias of the endpoint scope "${slug}"`, param)
    }
  }
}

/** Throws a conflict when one of the words is the name or an alias of a model of the registry, which would always be found first. */
export const requireNoModelName = (state: ControlReader, words: readonly string[], param: string): void => {
  if (words.length === 0) return
  const models = state.table('models')
  const wanted = new Set<string>()
  for (const word of words) {
    if (models.find('name', word.toLowerCase()).length > 0) {
      throw new Rejection('conflict', `"${word}" is the name of a model`, param)
    }
    wanted.add(word.toLowerCase())
  }
  for (const [, { name, aliases }] of models.rows()) {
    const taken = aliases.find((alias) => wanted.has(alias.toLowerCase()))
    if (taken !== undefined) throw new Rejection('conflict', `"${taken}" is an alias of the model "${name}"`, param)
  }
}

/** Whether the registry has a model of this name, alias or id. */
export const isModel = (state: ControlReader, text: string): boolean => {
  const models = state.table('models')
  const word = text.toLowerCase()
  if (models.get(text) !== undefined || models.find('name', word).length > 0) return true
  for (const [, { aliases }] of models.rows()) if (aliases.some((alias) => alias.toLowerCase() === word)) return true
  return false
}
