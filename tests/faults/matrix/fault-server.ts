// An upstream on loopback that answers each whole request with raw bytes of its row's making.
import { type RawConnection, startRawServer } from '../../services/raw-server.ts'

export interface FaultRequest {
  readonly connection: RawConnection
  readonly head: string
  readonly body: string
  readonly stream: boolean
  /** What is left of writing HTTP by hand. `chunk` frames one piece of a chunked body; `last` ends it. */
  head200(headers?: string, status?: string): void
  chunk(text: string | Uint8Array): void
  last(): void
}

export type FaultAnswer = (request: FaultRequest) => void | Promise<void>

export interface FaultServer {
  readonly port: number
  /** Head and body of each request that came whole. */
  readonly requests: string[]
  readonly open: () => number
  stop(): void
}

const encoder = new TextEncoder()

const framed = (text: string | Uint8Array): Uint8Array => {
  const bytes = typeof text === 'string' ? encoder.encode(text) : text
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
}

const requestOf = (connection: RawConnection, head: string, body: string): FaultRequest => ({
  connection,
  head,
  body,
  stream: /"stream":\s*true/.test(body) || head.includes('streamGenerateContent'),
  head200(headers = '', status = '200 OK') {
    connection.write(`HTTP/1.1 ${status}\r\nTransfer-Encoding: chunked\r\n${headers}\r\n`)
  },
  chunk: (text) => connection.write(framed(text)),
  last: () => connection.write('0\r\n\r\n'),
})

/**
 * Answers the requests of a connection one after another; `requests` keeps what came. `anyBytes`: answers the first
 * bytes, whatever they are.
 */
export const startFaultServer = (
  answer: FaultAnswer,
  { tls, anyBytes = false }: { tls?: { readonly cert: string; readonly key: string }; anyBytes?: boolean } = {},
): FaultServer => {
  const requests: string[] = []
  const server = startRawServer((connection) => {
    if (anyBytes) {
      void answer(requestOf(connection, '', ''))
      return
    }
    const headEnd = connection.received.indexOf('\r\n\r\n')
    if (headEnd === -1) return
    const head = connection.received.slice(0, headEnd)
    const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0)
    const whole = headEnd + 4 + length
    if (connection.received.length < whole) return
    const body = connection.received.slice(headEnd + 4, whole)
    connection.received = connection.received.slice(whole)
    requests.push(`${head}\r\n\r\n${body}`)
    void answer(requestOf(connection, head, body))
  }, tls)
  return {
    port: server.port,
    requests,
    open: () => server.connections.filter(({ gone }) => !gone).length,
    stop: () => server.stop(),
  }
}
