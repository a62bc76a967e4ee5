// A body that is JSON where server-sent events were requested. The grammar of events ignores such a line.

/** Errors are short; longer responses are streams. */
const MOST_CHARS = 1024 * 1024
const OPENING = 0x7b
/** Space, tab, line feed, carriage return. */
const isBlank = (code: number): boolean => code === 0x20 || (code >= 0x09 && code <= 0x0d)

/** Collects a body while it may be one JSON object. */
export class BareJson {
  #text = ''
  readonly #decoder = new TextDecoder()

  /** False when the body is too long: no further piece is needed. */
  takes(piece: string | Uint8Array): boolean {
    this.#text += typeof piece === 'string' ? piece : this.#decoder.decode(piece, { stream: true })
    return this.#text.length <= MOST_CHARS
  }

  /** The object as JSON text; null for another body. */
  end(): string | null {
    const text = this.#text.trim()
    return text.endsWith('}') ? text : null
  }
}

/**
 * Whether a body with this beginning may be a JSON object; no event is, since field names have no brace. Null while
 * undecided.
 */
export const mayBegin = (piece: string | Uint8Array): boolean | null => {
  for (let at = 0; at < piece.length; at++) {
    const code = typeof piece === 'string' ? piece.charCodeAt(at) : piece[at]!
    if (!isBlank(code)) return code === OPENING
  }
  return null
}
