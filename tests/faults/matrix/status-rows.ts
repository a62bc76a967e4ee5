// Faults that the upstream reports itself: statuses, rate limits, redirects.
import { before, type Code, forever, JSON_TYPE, type Row, send } from './row.ts'

const errorBody = (message: string, more: Record<string, unknown> = {}) =>
  JSON.stringify({ error: { message, type: 'scripted', param: null, code: null, ...more } })

const status = (line: string, code: Code, body = errorBody(`scripted ${line}`), more: Partial<Row> = {}): Row => {
  const expected = before(code, { upstreamStatus: Number(line.slice(0, 3)) })
  return { name: line, answer: (request) => send(request, body, line), json: expected, stream: expected, ...more }
}

/** `headers` is called for each answer: dates count from now. */
const throttled = (name: string, retryAfterS: number | null, headers: () => string, more: Partial<Row> = {}): Row => {
  const expected = before('rate_limited', { upstreamStatus: 429, retryAfterS })
  return {
    name: `429 ${name}`,
    answer: (request) =>
      send(request, errorBody('slow down'), '429 Too Many Requests', `${JSON_TYPE}Date: ${utc(0)}\r\n${headers()}`),
    json: expected,
    stream: expected,
    ...more,
  }
}

/** So many seconds from now, as HTTP writes it. Whole seconds of the clock. */
const utc = (seconds: number) => new Date((Math.floor(Date.now() / 1_000) + seconds) * 1_000).toUTCString()
const iso = (seconds: number) => new Date((Math.floor(Date.now() / 1_000) + seconds) * 1_000).toISOString()
const after = (value: string) => () => `Retry-After: ${value}\r\n`

const RETRY_INFO = JSON.stringify({
  error: {
    code: 429,
    message: 'Resource has been exhausted',
    status: 'RESOURCE_EXHAUSTED',
    details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '34s' }],
  },
})
const retryInfo = before('rate_limited', { upstreamStatus: 429, retryAfterS: 34 })

const throttledRows: readonly Row[] = [
  throttled('Retry-After: seconds', 7, after('7'), { short: true }),
  throttled('Retry-After: fraction', 2, after('1.5')),
  throttled('Retry-After: 0', 0, after('0')),
  throttled('Retry-After: HTTP date', 20, () => `Retry-After: ${utc(20)}\r\n`, { short: true }),
  throttled('Retry-After: RFC 850 date', 20, () => `Retry-After: ${rfc850(20)}\r\n`),
  throttled('Retry-After: past date', null, () => `Retry-After: ${utc(-60)}\r\n`),
  throttled('retry-after-ms', 2, () => 'retry-after-ms: 1500\r\n', { short: true }),
  throttled('x-ratelimit-reset-requests', 360, () => resets('requests', '6m0s')),
  throttled('x-ratelimit-reset-tokens', 1, () => resets('tokens', '120ms')),
  throttled(
    'x-ratelimit-reset-*: the one that ran out',
    9,
    () => `${resets('requests', '59s', 3)}${resets('tokens', '9s')}`,
  ),
  throttled(
    'x-ratelimit-reset: Unix ms',
    30,
    () => `x-ratelimit-reset: ${(Math.floor(Date.now() / 1_000) + 30) * 1_000}\r\n`,
  ),
  throttled(
    'anthropic reset: RFC 3339',
    45,
    () => `anthropic-ratelimit-requests-remaining: 0\r\nanthropic-ratelimit-requests-reset: ${iso(45)}\r\n`,
  ),
  throttled('without any', null, () => '', { short: true }),
  throttled('Retry-After: -1', null, after('-1')),
  throttled('Retry-After: 1e9', null, after('1e9')),
  throttled('Retry-After: 99999999', 31_536_000, after('99999999'), { short: true }),
  throttled('Retry-After: soon', null, after('soon')),
  throttled('Retry-After: empty', null, after('')),
  throttled('Retry-After: 400 digits', null, after('9'.repeat(400))),
  {
    name: '429 RetryInfo (gemini)',
    kind: 'gemini',
    answer: (request) => send(request, RETRY_INFO, '429 Too Many Requests'),
    json: retryInfo,
    stream: retryInfo,
  },
  status(
    '429 Insufficient Quota',
    'quota_exceeded',
    errorBody('You exceeded your current quota', { code: 'insufficient_quota' }),
  ),
]

const rfc850 = (seconds: number) => {
  const [day, date, month, year, time] = utc(seconds).replace(',', '').split(' ') as [
    string,
    string,
    string,
    string,
    string,
  ]
  const long = {
    Sun: 'Sunday',
    Mon: 'Monday',
    Tue: 'Tuesday',
    Wed: 'Wednesday',
    Thu: 'Thursday',
    Fri: 'Friday',
    Sat: 'Saturday',
  }
  return `${long[day as keyof typeof long]}, ${date}-${month}-${year.slice(2)} ${time} GMT`
}
const resets = (what: string, value: string, remaining = 0) =>
  `x-ratelimit-remaining-${what}: ${remaining}\r\nx-ratelimit-reset-${what}: ${value}\r\n`

const redirect = (line: string): Row => {
  const expected = before('upstream_error', { upstreamStatus: Number(line.slice(0, 3)) })
  return {
    name: `redirect ${line.slice(0, 3)}`,
    answer: (request) => send(request, '', line, `Location: http://127.0.0.1:1/elsewhere\r\n`),
    json: expected,
    stream: expected,
  }
}

const serverError = before('upstream_error', { upstreamStatus: 500 })
const HTML = '<html><body><h1>502 Bad Gateway</h1></body></html>'

export const statusRows: readonly Row[] = [
  ...throttledRows,
  status('500 Internal Server Error', 'upstream_error', undefined, { short: true }),
  status('501 Not Implemented', 'upstream_error'),
  status('502 Bad Gateway', 'upstream_error', HTML),
  status('503 Service Unavailable', 'upstream_error', undefined, { short: true }),
  status('504 Gateway Timeout', 'upstream_error'),
  status('520 Unknown Error', 'upstream_error', HTML),
  status('529 Overloaded', 'upstream_error'),
  status('400 Bad Request', 'invalid_request', undefined, { short: true }),
  status('400 (context length)', 'context_length_exceeded', errorBody('too long', { code: 'context_length_exceeded' })),
  status('400 (content filter)', 'content_filtered', errorBody('no', { code: 'content_filter' })),
  status('401 Unauthorized', 'authentication_error', undefined, { short: true }),
  status('402 Payment Required', 'quota_exceeded', undefined, { short: true }),
  status('403 Forbidden', 'permission_error'),
  status('404 Not Found', 'not_found', undefined, { short: true }),
  status('408 Request Timeout', 'timeout', undefined, { short: true }),
  status('413 Payload Too Large', 'invalid_request'),
  status('418 Teapot', 'invalid_request', 'short and stout'),
  status('422 Unprocessable', 'invalid_request'),
  status('424 Failed Dependency', 'upstream_error'),
  status('499 Client Closed Request', 'upstream_error'),
  {
    name: '500, its body stalls',
    timeoutMs: 2_000,
    answer: ({ connection }) => connection.write('HTTP/1.1 500 X\r\nContent-Length: 100\r\n\r\n{"error":'),
    json: serverError,
    stream: serverError,
    short: true,
  },
  {
    name: '401, its body stalls',
    timeoutMs: 2_000,
    answer: ({ connection }) => connection.write('HTTP/1.1 401 X\r\nContent-Length: 100\r\n\r\n{"error":'),
    json: before('authentication_error', { upstreamStatus: 401 }),
    stream: before('authentication_error', { upstreamStatus: 401 }),
  },
  {
    name: '500, its body is cut',
    answer: ({ connection }) => {
      connection.write('HTTP/1.1 500 X\r\nContent-Length: 100\r\n\r\n{"error":')
      connection.end()
    },
    json: serverError,
    stream: serverError,
  },
  {
    name: '500, its body is endless',
    answer: (request) => {
      request.head200(JSON_TYPE, '500 X')
      return forever(request, () => request.chunk('x'.repeat(10_000)))
    },
    json: serverError,
    stream: serverError,
  },
  ...['301 Moved Permanently', '302 Found', '307 Temporary Redirect', '308 Permanent Redirect'].map(redirect),
  {
    name: '204 without a body',
    answer: ({ connection }) => connection.write('HTTP/1.1 204 No Content\r\n\r\n'),
    json: before('upstream_error'),
    stream: before('upstream_error'),
  },
]
