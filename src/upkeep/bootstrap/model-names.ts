// How a file names one row of the registry of models. A bare name means the rows of every provider that serves it; an
// id means one row.
import type { ControlReader } from '../../domain/control.ts'
import type { ManagedBy } from '../../domain/kernel/fields.ts'
import type { ModelRow } from '../../domain/registry/model.ts'
import { modelOf, refersToRow } from '../../domain/registry/model-row.ts'

/** The length of the shortest member that names models. */
const MAX_LENGTH = 256
/** Precedes a text that names no row, and that a start would otherwise take for one. */
const GONE = 'gone:'

/** The text for one row of the registry; null where no text would be read as that row again. */
const textOfRow = (state: ControlReader, { id, name, provider_id }: ModelRow): string | null => {
  const text = `provider:${state.table('providers').get(provider_id)?.name}/${name}`
  return text.length <= MAX_LENGTH && modelOf(state, text) === id ? text : null
}

/**
 * The models that one row names, as a file names them: for an id the name of its row, unless other rows have that name
 * too. Collects what has no such name.
 */
export class ModelTexts {
  readonly #ids: string[] = []
  readonly #gone: string[] = []

  /**
   * `managedBy`: of the row that names them. A name in a row of the settings may be of a model that comes later; a name
   * in a row of the API that no model has is dead.
   */
  constructor(
    readonly state: ControlReader,
    readonly managedBy: ManagedBy,
  ) {}

  of(text: string): string {
    const row = this.state.table('models').get(text)
    if (row === undefined) return this.#nameOf(text)
    const named = textOfRow(this.state, row)
    if (named === null) this.#ids.push(`${JSON.stringify(row.name)} (${row.id})`)
    return named ?? text
  }

  #nameOf(text: string): string {
    if (this.managedBy === 'bootstrap' || !refersToRow(this.state, text)) return text
    this.#gone.push(JSON.stringify(text))
    return `${GONE}${text}`.slice(0, MAX_LENGTH).toWellFormed()
  }

  /**
   * The note about an entry that names a row by its id, which another installation does not have, or a row that does
   * not exist.
   */
  noteOn(what: string): { readonly note?: string } {
    const notes = [
      ...(this.#ids.length === 0
        ? []
        : [`${what} names models by id, which only this installation knows: ${this.#ids.join(', ')}`]),
      ...(this.#gone.length === 0
        ? []
        : [
            `${what} names models that are not there, "${GONE}" in front so that no start takes them for ` +
              `others: ${this.#gone.join(', ')}`,
          ]),
    ]
    return notes.length === 0 ? {} : { note: notes.join('; ') }
  }
}
