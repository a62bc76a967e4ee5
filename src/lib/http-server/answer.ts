// What a handler of the hot route answers with: less than the runtime's `Response`, which costs several microseconds where memory is cold.

import { type TextPieces, wholeText } from '../text/text-pieces.ts'

/** Takes the body of an answer that goes on. */
export interface AnswerSink {
  write(text: string): unknown
  /** What was written goes out. A promise while the client does not read. */
  flush(): number | Promise<number>
  close(): unknown
}

/** A body that is made while it goes out. */
export interface LiveBody {
  /** Writes all of it. Never rejects. */
  run(sink: AnswerSink): Promise<void>
  /** The client has left: nothing more is wanted. */
  left(): void
}

export const isText = (body: TextPieces | LiveBody): body is TextPieces =>
  typeof body === 'string' || Array.isArray(body)

export interface Answer {
  readonly status: number
  /** Header lines, each `name: value` and CRLF. Whoever makes them answers for their characters. None about length, coding or connection: those are the server's. */
  readonly head: TextPieces
  readonly body: TextPieces | LiveBody
  /** The connection ends with it. */
  readonly closes: boolean
}

const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** Lines of headers whose names are texts of the program. Throws on a value that would end its line. */
export const headLines = (headers: Readonly<Record<string, string>>): string => {
  let lines = ''
  for (const name in headers) {
    const value = headers[name]!
    if (!VALUE.test(value)) throw new TypeError(`the header ${name} cannot be sent`)
    lines += `${name}: ${value}\r\n`
  }
  return lines
}

/** What is written waits until it is read: `flush` is a promise of that. */
const liveStream = (body: LiveBody): ReadableStream<Uint8Array> => {
  let text = ''
  let begun = false
  let isOpen = true
  let wake: ((size: number) => void) | null = null
  /** Somebody reads who found nothing there. */
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
        body.left()
        go()
      },
    },
    { highWaterMark: 0 },
  )
}

/** The same for whoever has to have a `Response`. */
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
