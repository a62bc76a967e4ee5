// Content codings of answers: none is asked for, the common ones are read.

import { DialFailure } from './dial.ts'
import { mapErrors } from './stream-text.ts'

const FORMATS: Readonly<Record<string, Bun.CompressionFormat>> = {
  gzip: 'gzip',
  'x-gzip': 'gzip',
  deflate: 'deflate',
  br: 'brotli',
  zstd: 'zstd',
}

/** Of a `Content-Encoding` in lower case; null for none and for what cannot be read. */
export const formatOf = (encoding: string): Bun.CompressionFormat | null => FORMATS[encoding] ?? null

/** The body without its coding; its errors are DialFailures. */
export const decompressed = (
  body: ReadableStream<Uint8Array>,
  format: Bun.CompressionFormat,
): ReadableStream<Uint8Array> =>
  mapErrors(
    body.pipeThrough(
      new DecompressionStream(format as CompressionFormat) as unknown as TransformStream<Uint8Array, Uint8Array>,
    ),
    (error) =>
      error instanceof DialFailure ? error : new DialFailure('reset', 'the compressed answer could not be read', error),
  )
