// What a wire family must do so that a fake vendor can speak it.
import type { Asked, Received, Reply } from './conversation.ts'

export interface Spoken {
  readonly type: string
  readonly bytes: Uint8Array
}

export interface Wire {
  /** Checks everything that its vendor checks; throws Refused. The path and the credential belong to it. */
  read(received: Received): Asked
  speak(asked: Asked, reply: Reply): Spoken
  /** The body of a refusal in the vendor's words, and its headers. */
  refusal(
    status: number,
    message: string,
  ): { readonly body: string; readonly headers?: Readonly<Record<string, string>> }
}

/** The vendor that speaks the wire: its kind, its model and its settings. */
export interface Speaker {
  readonly kind: string
  /** What it serves; any other model is unknown to it. */
  readonly model: string
  readonly secret: string | null
  readonly options: Readonly<Record<string, unknown>>
  /** What precedes the wire's own path. */
  readonly basePath: string
  /** Nothing is known of the vendor except its row. */
  readonly assumed: boolean
}

const encoder = new TextEncoder()
export const spoken = (type: string, text: string): Spoken => ({ type, bytes: encoder.encode(text) })
export const jsonSpoken = (value: unknown): Spoken => spoken('application/json', JSON.stringify(value))

/** Blocks of a recorded event stream, and the JSON of those that have some. */
export const blocksOf = (stream: string): readonly { readonly text: string; readonly json: unknown }[] =>
  stream
    .split(/\r?\n\r?\n/)
    .filter((text) => text.trim() !== '')
    .map((text) => {
      const data = text
        .split(/\r?\n/)
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5).trim())
        .join('\n')
      try {
        return { text, json: JSON.parse(data) as unknown }
      } catch {
        return { text, json: undefined } // a comment, `[DONE]`
      }
    })

/** A number at the end of ids that no two calls share. */
let calls = 0
export const nextNumber = (): number => ++calls
