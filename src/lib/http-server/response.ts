// Sends a `Response` of the runtime on a connection of the own server.

import { headText, type ReplyForm, type ServerOutput } from './output.ts'

/** Headers that the server adds itself. */
const SERVER_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'transfer-encoding',
  'content-length',
  'date',
])

/** A body of this size is sent without waiting for its end. */
const AT_ONCE_BYTES = 1024 * 1024

type Piece = Awaited<ReturnType<ReadableStreamDefaultReader<Uint8Array>['read']>>

/** The next iteration of the event loop; pieces that are ready come before it. */
const nextIteration = (): Promise<null> => new Promise((resolve) => setImmediate(resolve, null))

/** False when the client has disconnected. Rejects when the body fails. */
export const sendResponse = async (
  response: Response,
  output: ServerOutput,
  { closes, isHead, isOne }: ReplyForm,
): Promise<boolean> => {
  const { status, body } = response
  if (status < 200) throw new TypeError('a response without a status')
  let lines = ''
  for (const [name, value] of response.headers) if (!SERVER_HEADERS.has(name)) lines += `${name}: ${value}\r\n`
  const head = headText(status, lines, closes)
  const isBodiless = isHead || status === 204 || status === 304
  if (body === null || isBodiless) {
    if (isBodiless) output.text(`${head}\r\n`)
    else output.whole(status, lines, closes, '')
    body?.cancel().catch(ignored)
    return true
  }
  return sendBody(head, body.getReader(), output, isOne)
}

/** Streams may yield strings too. */
const bytesOf = (piece: Uint8Array | string): Uint8Array => (typeof piece === 'string' ? Buffer.from(piece) : piece)

/** A body that is ready at once is sent with its length; any other, and a long one, in chunks as it comes. */
const sendBody = async (
  head: string,
  reader: ReadableStreamDefaultReader<Uint8Array>,
  output: ServerOutput,
  chunked: boolean,
): Promise<boolean> => {
  output.whenDead = () => void reader.cancel().catch(ignored)
  const pieces: Uint8Array[] = []
  let size = 0
  let reading = readFrom(reader)
  while (size <= AT_ONCE_BYTES) {
    const piece = await Promise.race([reading, nextIteration()])
    if (piece === null) break
    if (piece.done) {
      output.whenDead = null
      output.bytes(head, joined(pieces))
      return true
    }
    const bytes = bytesOf(piece.value)
    pieces.push(bytes)
    size += bytes.length
    reading = readFrom(reader)
  }
  output.pieceOfBytes(
    chunked ? `${head}transfer-encoding: chunked\r\n\r\n` : `${head}\r\n`,
    joined(pieces),
    chunked,
    false,
  )
  for (;;) {
    await output.flushed()
    const { done, value } = await reading
    if (output.dead) return false
    if (done) break
    output.pieceOfBytes('', bytesOf(value), chunked, false)
    reading = readFrom(reader)
  }
  output.whenDead = null
  if (chunked) output.text('0\r\n\r\n')
  return true
}

/** A read may fail before it is awaited; the error then reaches the later `await`. */
const readFrom = (reader: ReadableStreamDefaultReader<Uint8Array>): Promise<Piece> => {
  const reading = reader.read()
  reading.catch(ignored)
  return reading
}

const joined = (pieces: readonly Uint8Array[]): Uint8Array => (pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces))

/** For errors that another promise reports: canceling a body, and reads that are awaited later. */
export const ignored = (): void => {}
