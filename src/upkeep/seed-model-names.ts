// How a file names one row of the registry of models. A bare name means the rows of every provider that serves it; where an id stands, one row is meant.
import { isModel } from '../domain/alias.ts'
import type { ControlReader } from '../domain/control.ts'
import { type ModelRow, naturalKey } from '../domain/model.ts'

/** `provider:<name>/<model>`. A provider's name holds no slash, a model's may. */
const ROW = /^provider:([^/]+)\/(.+)$/s
/** What the shortest of the members that name models holds. */
const MAX_LENGTH = 256

/** What an entry says of a model, as rows have it: the id of the row that `provider:<name>/<model>` names; all else as it came, also while there is no such row. */
export const modelOf = (state: ControlReader, text: string): string => {
  const [, providerName, name] = ROW.exec(text) ?? []
  if (providerName === undefined || isModel(state, text)) return text
  const [providerId] = state.table('providers').find('name', providerName.toLowerCase())
  if (providerId === undefined) return text
  return state.table('models').find('natural', naturalKey(providerId, name!))[0] ?? text
}

/** What stands in a file for one row of the registry; null where no text would be read as it again. */
const textOfRow = (state: ControlReader, { id, name, provider_id }: ModelRow): string | null => {
  const text = `provider:${state.table('providers').get(provider_id)?.name}/${name}`
  return text.length <= MAX_LENGTH && modelOf(state, text) === id ? text : null
}

/** Models as a file names them: of an id the row that it means, not the name, which others may have too. Remembers what it had to leave as an id. */
export class ModelTexts {
  readonly #left: string[] = []

  constructor(readonly state: ControlReader) {}

  of(text: string): string {
    const row = this.state.table('models').get(text)
    if (row === undefined) return text
    const named = textOfRow(this.state, row)
    if (named === null) this.#left.push(`${JSON.stringify(row.name)} (${row.id})`)
    return named ?? text
  }

  /** The note about an entry that names a row by its id, which another installation does not have. */
  noteOn(what: string): { readonly note?: string } {
    if (this.#left.length === 0) return {}
    return { note: `${what} names models by id, which only this installation knows: ${this.#left.join(', ')}` }
  }
}
