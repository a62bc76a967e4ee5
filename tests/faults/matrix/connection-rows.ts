// Faults of the way there: name, connection, TLS, headers.
import { ANSWER, before, JSON_TYPE, type Row, send, soon } from './row.ts'

const broken = before('upstream_error')

export const connectionRows: readonly Row[] = [
  { name: 'DNS failure', baseUrl: 'http://no-such-name.invalid/v1', json: broken, stream: broken },
  // Port 1 of loopback: no process listens there.
  { name: 'connection refused', baseUrl: 'http://127.0.0.1:1/v1', json: broken, stream: broken, short: true },
  { name: 'TLS: untrusted certificate', tls: 'cert', json: broken, stream: broken, short: true },
  {
    name: 'TLS: no TLS spoken',
    tls: 'https',
    answer: (request) => send(request, ANSWER),
    json: broken,
    stream: broken,
  },
  { name: 'TLS: handshake never ends', tls: 'https', json: before('timeout'), stream: before('timeout') },
  { name: 'closed before headers', answer: ({ connection }) => connection.end(), json: broken, stream: broken },
  { name: 'reset before headers', answer: ({ connection }) => connection.reset(), json: broken, stream: broken },
  {
    name: 'not HTTP',
    answer: ({ connection }) => connection.write('SSH-2.0-OpenSSH_9\r\n\r\n\r\n'),
    json: broken,
    stream: broken,
  },
  {
    name: 'half a head',
    answer: ({ connection }) => {
      connection.write('HTTP/1.1 200 OK\r\nContent-')
      return soon(() => connection.end())
    },
    json: broken,
    stream: broken,
  },
  {
    name: 'header timeout',
    timeoutMs: 2_000,
    answer: () => {},
    json: before('timeout'),
    stream: before('timeout'),
    short: true,
  },
  {
    name: 'headers drip, a byte at a time',
    timeoutMs: 2_000,
    answer: async ({ connection }) => {
      connection.write('HTTP/1.1 200 OK\r\nX-Slow: ')
      while (!connection.gone) {
        connection.write('a')
        await Bun.sleep(20)
      }
    },
    json: before('timeout'),
    stream: before('timeout'),
  },
  {
    name: 'silence past the total deadline',
    policy: 'short',
    answer: () => {},
    json: before('timeout'),
    stream: before('timeout'),
    short: true,
  },
  {
    name: 'giant header (100 KB)',
    answer: ({ connection }) => connection.write(`HTTP/1.1 200 OK\r\nX-Giant: ${'g'.repeat(100_000)}\r\n\r\n`),
    json: broken,
    stream: broken,
    short: true,
  },
  {
    name: '10,000 headers',
    answer: ({ connection }) => connection.write(`HTTP/1.1 200 OK\r\n${'X: y\r\n'.repeat(10_000)}\r\n`),
    json: broken,
    stream: broken,
  },
  {
    name: 'two lengths',
    answer: (request) => send(request, ANSWER, '200 OK', `${JSON_TYPE}Content-Length: 3\r\n`),
    json: broken,
    stream: broken,
  },
  {
    name: 'upgrade (101)',
    answer: ({ connection }) => connection.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n'),
    json: broken,
    stream: broken,
  },
]
