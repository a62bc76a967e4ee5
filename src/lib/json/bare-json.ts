// A body that is JSON where server-sent events were asked for. The grammar of events knows no such line and passes over it.

/** Errors are short; answers that are longer than this come as streams. */
const MOST_CHARS = 1024 * 1024
const OPENING = 0x7b
/** Space, tab, line feed, carriage return. */
const isBlank = (code: number): boolean => code === 0x20 || (code >= 0x09 && code <= 0x0d)

/** Collects a body for as long as it may be one JSON object. */
export class BareJson {
  #text = ''
  readonly #decoder = new TextDecoder()

  /** False: it is too long, and nothing more needs to be told. */
  takes(piece: string | Uint8Array): boolean {
    this.#text += typeof piece === 'string' ? piece : this.#decoder.decode(piece, { stream: true })
    return this.#text.length <= MOST_CHARS
  }

  /** The object as JSON text; null when there was none. */
  end(): string | null {
    const text = this.#text.trim()
    return text.endsWith('}') ? text : null
  }
}

/** Whether a body that begins so may be a JSON object: no event does, for the names of fields have no brace. Null: it says nothing yet. */
export const mayBegin = (piece: string | Uint8Array): boolean | null => {
  for (let at = 0; at < piece.length; at++) {
    const code = typeof piece === 'string' ? piece.charCodeAt(at) : piece[at]!
    if (!isBlank(code)) return code === OPENING
  }
  return null
}
