// Faults inside a 200: malformed bodies and streams. Where only the stream shows a fault, the nearest JSON fault stands
// beside it.
import type { FaultRequest } from './fault-server.ts'
import {
  ANSWER,
  after,
  before,
  DONE,
  delta,
  FINISH,
  forever,
  JSON_TYPE,
  MB,
  open,
  openThen,
  ROLE,
  type Row,
  row,
  send,
  soon,
  sse,
  TEXT,
  WORD,
} from './row.ts'

const broken = before('upstream_error')
/** The in-band error stands in the header as well. */
const said500 = before('upstream_error', { upstreamStatus: 500 })
const HTML = '<!doctype html><html><body>Please sign in</body></html>'
const IN_BAND = { error: { message: 'scripted failure', type: 'server_error', code: 500 } }
/** As routers report what failed behind them. */
const FAILED_CHOICE = JSON.stringify({
  ...JSON.parse(ANSWER),
  choices: [{ index: 0, message: { role: 'assistant', content: TEXT }, finish_reason: 'error', ...IN_BAND }],
})
const half = (end: (request: FaultRequest) => void) => async (request: FaultRequest) => {
  request.connection.write(
    `HTTP/1.1 200 OK\r\n${JSON_TYPE}Content-Length: ${Buffer.byteLength(ANSWER)}\r\n\r\n${ANSWER.slice(0, 40)}`,
  )
  await soon(() => end(request))
}
const frames =
  (...all: string[]) =>
  (request: FaultRequest) => {
    open(request, ...all)
    request.last()
  }
/** These frames, and then this. */
const framesThen =
  (then: (request: FaultRequest) => void, ...all: string[]) =>
  async (request: FaultRequest) => {
    open(request, ...all)
    await soon(() => then(request))
  }
const reset = ({ connection }: FaultRequest) => connection.reset()
const end = ({ connection }: FaultRequest) => connection.end()
const nothing = () => {}
const whole = (request: FaultRequest) => send(request, ANSWER)
const wholeStream = frames(ROLE, WORD, FINISH, DONE)
const WORLD = Buffer.from(WORD)
/** In the middle of a character of four bytes. */
const CUT_AT = WORLD.indexOf(Buffer.from('🌍')) + 2
const badLines = Array.from({ length: 20 }, () => 'data: {"choices": [\n\n')

const endings: readonly Row[] = [
  row('nothing wrong', ['ok', whole], ['ok', wholeStream], { short: true }),
  row('empty body', [broken, (request) => send(request, '')], [broken, frames()], { short: true }),
  row('[DONE] and nothing else', [broken, (request) => send(request, 'null')], [broken, frames(DONE)]),
  row('no content, no finish reason', [broken, (request) => send(request, '{}')], [broken, frames(ROLE, DONE)]),
  row(
    'error in band before the first token',
    [said500, (request) => send(request, JSON.stringify(IN_BAND))],
    [said500, frames(ROLE, sse(IN_BAND), DONE)],
    { short: true },
  ),
  row(
    'event: error before the first token',
    [said500, (request) => send(request, JSON.stringify({ object: 'error', message: 'no', code: 500 }))],
    [said500, frames(ROLE, `event: error\n${sse(IN_BAND)}`)],
  ),
  row(
    'error in band after the first token',
    [said500, (request) => send(request, FAILED_CHOICE)],
    [after('upstream_error'), openThen(sse(IN_BAND), DONE)],
    { short: true },
  ),
  row(
    'event: error after the first token',
    [broken, half(end)],
    [after('upstream_error'), openThen(`event: error\n${sse(IN_BAND)}`)],
  ),
  row(
    'rate limit in band before the first token',
    [
      before('rate_limited'),
      (request) =>
        send(
          request,
          JSON.stringify({ error: { message: 'slow', type: 'rate_limit_error', code: 'rate_limit_exceeded' } }),
        ),
    ],
    [
      before('rate_limited'),
      frames(sse({ error: { message: 'slow', type: 'rate_limit_error', code: 'rate_limit_exceeded' } })),
    ],
  ),
  row('cut (FIN) before the first token', [broken, half(end)], [broken, framesThen(end, ROLE)]),
  row('cut (RST) before the first token', [broken, half(reset)], [broken, framesThen(reset, ROLE)]),
  row('cut (FIN) after the first token', [broken, half(end)], [after('upstream_error'), framesThen(end, ROLE, WORD)], {
    short: true,
  }),
  row(
    'cut (RST) after the first token',
    [broken, half(reset)],
    [after('upstream_error'), framesThen(reset, ROLE, WORD)],
  ),
  row('cut after the finish reason', ['ok', whole], ['ok', framesThen(reset, ROLE, WORD, FINISH)]),
  row(
    'stall before the first token',
    [before('timeout'), half(nothing)],
    [before('timeout'), framesThen(nothing, ROLE)],
    { timeoutMs: 2_000, short: true },
  ),
  row('stall mid-stream', [before('timeout'), half(nothing)], [after('timeout'), framesThen(nothing, ROLE, WORD)], {
    timeoutMs: 2_000,
    short: true,
  }),
  row('stall after the finish reason', ['ok', whole], ['ok', framesThen(nothing, ROLE, WORD, FINISH)]),
  row('[DONE] without a finish reason', ['ok', whole], ['ok', frames(ROLE, WORD, DONE)]),
  row('finish reason without [DONE]', ['ok', whole], ['ok', frames(ROLE, WORD, FINISH)], { short: true }),
  row(
    'neither finish reason nor [DONE]',
    [broken, (request) => send(request, ANSWER.slice(0, -2))],
    [after('upstream_error'), openThen()],
    { short: true },
  ),
]

const contents: readonly Row[] = [
  row('bad JSON', [broken, (request) => send(request, '{"choices": [')], [broken, frames(...badLines)], {
    short: true,
  }),
  row(
    'bad JSON after the first token',
    [broken, (request) => send(request, `${ANSWER}}`)],
    [after('upstream_error'), openThen(...badLines)],
  ),
  row('one bad line among good ones', ['ok', whole], [broken, frames(ROLE, WORD, badLines[0]!, WORD, FINISH, DONE)], {
    short: true,
  }),
  row('a line of litter among good ones', ['ok', whole], ['ok', frames(ROLE, 'data: ping\n\n', WORD, FINISH, DONE)]),
  row(
    'HTML with 200',
    [broken, (request) => send(request, HTML, '200 OK', 'Content-Type: text/html\r\n')],
    [broken, (request) => send(request, HTML, '200 OK', 'Content-Type: text/html\r\n')],
    { short: true },
  ),
  row('not the answer that was asked for', [broken, wholeStream], [broken, whole]),
  row(
    'a character cut between two packets',
    [
      'ok',
      async (request) => {
        const bytes = Buffer.from(ANSWER)
        const at = bytes.indexOf(Buffer.from('🌍')) + 2
        request.connection.write(`HTTP/1.1 200 OK\r\nContent-Length: ${bytes.length}\r\n\r\n`)
        request.connection.write(bytes.subarray(0, at))
        await soon(() => request.connection.write(bytes.subarray(at)))
      },
    ],
    [
      'ok',
      async (request) => {
        open(request, ROLE)
        request.chunk(WORLD.subarray(0, CUT_AT))
        await soon(() => {
          request.chunk(WORLD.subarray(CUT_AT))
          for (const frame of [FINISH, DONE]) request.chunk(frame)
          request.last()
        })
      },
    ],
    { short: true },
  ),
  row(
    'half a character, then the end',
    [
      broken,
      (request) => send(request, Buffer.from(ANSWER).subarray(0, Buffer.from(ANSWER).indexOf(Buffer.from('🌍')) + 2)),
    ],
    [
      after('upstream_error'),
      async (request) => {
        open(request, ROLE, WORD)
        await soon(() => request.chunk(WORLD.subarray(0, CUT_AT)))
        request.last()
      },
    ],
  ),
  row(
    '10 MB line',
    ['ok', (request) => send(request, ANSWER.replace('Grüße', 'G'.repeat(10 * MB)))],
    [
      broken,
      (request) => {
        open(request, ROLE, delta({ content: 'G'.repeat(10 * MB) }), FINISH, DONE)
        request.last()
      },
    ],
  ),
  row(
    '10 MB line after the first token',
    ['ok', (request) => send(request, ANSWER.replace('Grüße', 'G'.repeat(10 * MB)))],
    [after('upstream_error'), openThen(delta({ content: 'G'.repeat(10 * MB) }), FINISH, DONE)],
  ),
  row(
    'a line without an end',
    [
      broken,
      (request) => {
        request.head200(JSON_TYPE)
        return forever(request, () => request.chunk(' '.repeat(MB)))
      },
    ],
    [
      broken,
      (request) => {
        open(request, ROLE, 'data: ')
        return forever(request, () => request.chunk('x'.repeat(MB / 4)))
      },
    ],
  ),
  row(
    'endless, without content',
    [
      before('timeout'),
      (request) => {
        request.head200(JSON_TYPE)
        return forever(request, () => request.chunk(' '), 20)
      },
    ],
    [
      broken,
      (request) => {
        open(request)
        return forever(request, () => request.chunk(ROLE))
      },
    ],
    { timeoutMs: 3_000, short: true },
  ),
  row(
    'endless comments',
    [before('timeout'), half(nothing)],
    [
      before('timeout'),
      (request) => {
        open(request)
        return forever(request, () => request.chunk(': waiting\n\n'), 20)
      },
    ],
    { timeoutMs: 3_000 },
  ),
  row(
    'endless after the finish reason',
    ['ok', whole],
    [
      'ok',
      (request) => {
        open(request, ROLE, WORD, FINISH)
        return forever(request, () => request.chunk(delta({})), 1)
      },
    ],
  ),
]

export const answerRows: readonly Row[] = [...endings, ...contents]
