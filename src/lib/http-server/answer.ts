// The response of a hot route: cheaper than the runtime's `Response`, which costs several microseconds where memory is
// cold.

import { type TextPieces, wholeText } from '../text/text-pieces.ts'

/** Receives the body of a streamed response. */
export interface AnswerSink {
  write(text: string): unknown
  /** Sends what was written. A promise while the client does not read. */
  flush(): number | Promise<number>
  close(): unknown
}

/** A body that is produced while it is sent. */
export interface LiveBody {
  /** Writes the whole body. Never rejects. */
  run(sink: AnswerSink): Promise<void>
  /** The client has disconnected: the body is no longer needed. */
  disconnected(): void
  /**
   * A text without meaning that may stand between two flushes. It is sent to a client that has ended its side, to find
   * out whether it still reads.
   */
  readonly idleText?: string
}

export const isText = (body: TextPieces | LiveBody): body is TextPieces =>
  typeof body === 'string' || Array.isArray(body)

export interface Answer {
  readonly status: number
  /**
   * Header lines, each `name: value` and CRLF. The producer guarantees their characters. Without length, coding and
   * connection, which the server adds.
   */
  readonly head: TextPieces
  readonly body: TextPieces | LiveBody
  /** The connection is closed afterwards. */
  readonly closes: boolean
}

const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** Header lines; the names must be constants of the program. Throws on a value that would end its line. */
export const headLines = (headers: Readonly<Record<string, string>>): string => {
  let lines = ''
  for (const name in headers) {
    const value = headers[name]!
    if (!VALUE.test(value)) throw new TypeError(`the header ${name} cannot be sent`)
    lines += `${name}: ${value}\r\n`
  }
  return lines
}

/** The body as a stream. `flush` is a promise until the reader takes what was written. */
const liveStream = (body: LiveBody): ReadableStream<Uint8Array> => {
  let text = ''
  let begun = false
  let isOpen = true
  let wake: ((size: number) => void) | null = null
  /** A reader waits and has found nothing. */
  let isWanted = false
  const go = () => {
    if (wake === null) isWanted = true
    wake?.(0)
    wake = null
  }
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (begun) return go()
        begun = true
        const send = () => {
          if (text !== '' && isOpen) controller.enqueue(Buffer.from(text))
          text = ''
        }
        const sink: AnswerSink = {
          write(more) {
            text += more
          },
          flush() {
            isWanted = false
            send()
            if (!isOpen || isWanted) return 0
            return new Promise<number>((resolve) => {
              wake = resolve
            })
          },
          close() {
            send()
            if (isOpen) controller.close()
            isOpen = false
          },
        }
        body.run(sink).catch((error: unknown) => controller.error(error))
      },
      cancel() {
        isOpen = false
        body.disconnected()
        go()
      },
    },
    { highWaterMark: 0 },
  )
}

/** The response as the runtime's `Response`. */
export const responseOf = ({ status, head, body, closes }: Answer): Response => {
  const headers = new Headers()
  for (const line of wholeText(head).split('\r\n')) {
    const colon = line.indexOf(':')
    if (colon > 0) headers.append(line.slice(0, colon), line.slice(colon + 1).trim())
  }
  if (closes) headers.set('connection', 'close')
  const whole = isText(body) ? wholeText(body) : liveStream(body)
  return new Response(whole, { status, headers })
}
