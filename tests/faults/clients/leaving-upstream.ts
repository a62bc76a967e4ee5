// The upstream of `leaving.ts`. It is slow enough that most clients leave in the middle, and it knows which requests
// are still being answered and when each was canceled.
import { type FaultRequest, startFaultServer } from '../matrix/fault-server.ts'
import { DONE, delta, FINISH, JSON_TYPE, ROLE, SSE_TYPE, send } from '../matrix/row.ts'

export interface Call {
  /** Of `performance.now()`. */
  readonly startedMs: number
  /** Everything was sent. */
  completeMs: number | null
  /** The gateway closed the connection. */
  closedMs: number | null
}

export interface LeavingUpstream {
  readonly baseUrl: string
  /** By the client's number; a repeat of a call stands after it. */
  readonly calls: ReadonlyMap<number, readonly Call[]>
  stop(): void
}

const WORDS = 40
export const WORD_TEXT = 'one more word of an answer, '
const ANSWER = JSON.stringify({
  id: 'c1',
  object: 'chat.completion',
  created: 1_760_000_000,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: WORD_TEXT.repeat(300) }, finish_reason: 'stop' }],
})

const streamed = async (request: FaultRequest) => {
  request.head200(SSE_TYPE)
  request.chunk(ROLE)
  for (let word = 0; word < WORDS && !request.connection.gone; word++) {
    await Bun.sleep(2 + Math.random() * 6)
    request.chunk(delta({ content: WORD_TEXT }))
  }
  request.chunk(FINISH)
  request.chunk(DONE)
  request.last()
}

const inPieces = async (request: FaultRequest) => {
  request.head200(JSON_TYPE)
  const pieces = 8
  const size = Math.ceil(ANSWER.length / pieces)
  for (let piece = 0; piece < pieces && !request.connection.gone; piece++) {
    request.chunk(ANSWER.slice(piece * size, (piece + 1) * size))
    await Bun.sleep(Math.random() * 20)
  }
  request.last()
}

/** A model named `flaky` fails at the first call of each client, so that the gateway pauses before it repeats it. */
export const startLeavingUpstream = (): LeavingUpstream => {
  const calls = new Map<number, Call[]>()
  const server = startFaultServer(async (request) => {
    const named = /leaver-(\d+)/.exec(request.body)
    if (named === null) {
      send(request, '{}', '404 Not Found') // it lists models
      return
    }
    const number = Number(named[1])
    const call: Call = { startedMs: performance.now(), completeMs: null, closedMs: null }
    const earlier = calls.get(number)
    calls.set(number, [...(earlier ?? []), call])
    void request.connection.whenGone.then(() => {
      call.closedMs = performance.now()
    })
    await Bun.sleep(Math.random() * 150)
    if (request.connection.gone) return
    if (request.body.includes('"flaky"') && earlier === undefined) {
      request.connection.write('HTTP/1.1 500 X\r\nContent-Length: 2\r\n\r\n{}')
    } else await (request.stream ? streamed(request) : inPieces(request))
    if (!request.connection.gone) call.completeMs = performance.now()
  })
  return { baseUrl: `http://127.0.0.1:${server.port}/v1`, calls, stop: server.stop }
}
