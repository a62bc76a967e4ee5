// What a built-in tool is to the run that calls it.

/** What a handler may use beside its arguments. */
export interface ToolContext {
  /** Unix milliseconds. */
  nowMs(): number
  /** Aborted when the run ends. */
  readonly signal: AbortSignal
  /** Reads a document for `http_get`. Throws ToolFailure. */
  readText(url: string, signal: AbortSignal): Promise<ReadText>
}

/** A document as `http_get` shows it to the model. */
export interface ReadText {
  readonly status: number
  readonly contentType: string
  readonly text: string
  /** The document was longer than what was read. */
  readonly truncated: boolean
}

/**
 * Executes one call. The arguments conform to the schema of the tool. Returns JSON text for the model. Throws
 * ToolFailure with a message for the model.
 */
export type ToolHandler = (args: Readonly<Record<string, unknown>>, context: ToolContext) => string | Promise<string>

/** The call failed. The message goes to the model: it says what is wrong and holds no secret. */
export class ToolFailure extends Error {
  constructor(
    readonly code: 'bad_arguments' | 'not_allowed' | 'unavailable' | 'too_large',
    message: string,
  ) {
    super(message)
  }
}
