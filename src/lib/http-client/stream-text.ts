// Streams of bytes whose errors are DialFailures.
import { type ByteReader, DialFailure } from './dial.ts'

/** Reads to the end as UTF-8. Throws DialFailure('too_large') beyond `maxBytes`. */
export const readText = async (body: ReadableStream<Uint8Array> | null, maxBytes: number): Promise<string> => {
  if (body === null) return ''
  const chunks: Uint8Array[] = []
  let size = 0
  const reader = body.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    size += value.length
    if (size > maxBytes) {
      await reader.cancel()
      throw new DialFailure('too_large', `the answer exceeds ${maxBytes} bytes`)
    }
    chunks.push(value)
  }
  return new TextDecoder().decode(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks))
}

/** A body as a stream that is pulled piece by piece, its errors mapped to DialFailures. */
export const mapErrors = (
  body: ReadableStream<Uint8Array>,
  failure: (error: unknown) => DialFailure,
): ReadableStream<Uint8Array> => {
  const reader = body.getReader()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read()
          if (done) controller.close()
          else controller.enqueue(value)
        } catch (error) {
          controller.error(failure(error))
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  )
}

/** A stream, pulled piece by piece, of what a reader reads. */
export const streamOf = (reader: ByteReader): ReadableStream<Uint8Array> =>
  new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        try {
          const { done, value } = await reader.read()
          if (done) controller.close()
          else controller.enqueue(value!)
        } catch (error) {
          controller.error(error)
        }
      },
      cancel: () => reader.cancel(),
    },
    { highWaterMark: 0 },
  )

/** Copies of the chunks, `total` bytes in all, in pieces of `size` bytes (the last one may be shorter). */
export const inPieces = (chunks: readonly Uint8Array[], total: number, size: number): Uint8Array[] => {
  const pieces: Uint8Array[] = []
  let piece = new Uint8Array(0)
  let filled = 0
  let left = total
  for (const chunk of chunks) {
    for (let at = 0; at < chunk.length; ) {
      if (filled === piece.length) {
        piece = new Uint8Array(Math.min(size, left))
        pieces.push(piece)
        filled = 0
      }
      const taken = Math.min(piece.length - filled, chunk.length - at)
      piece.set(chunk.subarray(at, at + taken), filled)
      filled += taken
      at += taken
      left -= taken
    }
  }
  return pieces
}

/** A reader of a body, or of none. */
export const readerOf = (body: ReadableStream<Uint8Array> | null): ByteReader =>
  body === null ? NOTHING : (body.getReader() as ByteReader)

const NOTHING: ByteReader = {
  read: async () => ({ done: true, value: undefined }),
  cancel: async () => {},
}
