// An answer as it is stored: the upstream's own text in the client's wire, whole or chunk by chunk.
import type { Answer, StreamPart } from '../../../providers/port.ts'

/** Chunks are JSON texts on one line each, in order, without those that hold usage alone. */
export type RecordedAnswer =
  | { readonly form: 'whole'; readonly json: string }
  | { readonly form: 'stream'; readonly chunks: readonly string[]; readonly usageChunk: string | null }

export const recordedWhole = ({ json }: Pick<Answer, 'json'>): RecordedAnswer => ({ form: 'whole', json })

const FIELD = 'data: '
const FRAME_END = '\n\n'

/** Collects the parts of a stream as they go to the client. Beyond its bound it holds nothing. */
export class StreamRecorder {
  #chunks: string[] = []
  #usageChunk: string | null = null
  #chars = 0
  #isTooLong = false

  constructor(private readonly mostChars: number) {}

  note(parts: readonly StreamPart[]): void {
    for (const part of parts) {
      if (this.#isTooLong) return
      if (part.frames !== undefined) this.#frames(part.frames)
      else if (part.json !== null) this.#chunk(part.json, part.usageOnly)
    }
  }

  /** The whole stream; null when it was too long, or had no chunk. */
  recorded(): RecordedAnswer | null {
    if (this.#isTooLong || this.#chunks.length === 0) return null
    return { form: 'stream', chunks: this.#chunks, usageChunk: this.#usageChunk }
  }

  /** Frames that were passed on unread. */
  #frames(frames: string): void {
    for (const frame of frames.split(FRAME_END))
      if (frame.startsWith(FIELD)) this.#chunk(frame.slice(FIELD.length), false)
  }

  #chunk(json: string, isUsage: boolean): void {
    this.#chars += json.length
    if (this.#chars > this.mostChars) {
      this.#isTooLong = true
      this.#chunks = []
      this.#usageChunk = null
    } else if (isUsage) this.#usageChunk = json
    else this.#chunks.push(json)
  }
}
