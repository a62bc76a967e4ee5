// Faults of compression. The gateway requests no compression; compressed answers are read all the same, within bounds.
import { gzipSync } from 'node:zlib'
import { ANSWER, before, DONE, FINISH, JSON_TYPE, MB, ROLE, type Row, row, SSE_TYPE, send, WORD } from './row.ts'

const broken = before('upstream_error')

/** 80 KB that become 80 MB. Made when they are sent: few runs do. */
const bombJson = () => gzipSync(Buffer.alloc(80 * MB, ' '))
const bombStream = () => gzipSync(Buffer.concat([Buffer.from(ROLE), Buffer.from('data: '), Buffer.alloc(80 * MB, 'x')]))
const gzip = (type: string) => `${type}Content-Encoding: gzip\r\n`
const ZIPPED = gzipSync(ANSWER)
const ZIPPED_STREAM = gzipSync(ROLE + WORD + FINISH + DONE)

export const encodingRows: readonly Row[] = [
  row(
    'compressed, though not asked for',
    ['ok', (request) => send(request, ZIPPED, '200 OK', gzip(JSON_TYPE))],
    ['ok', (request) => send(request, ZIPPED_STREAM, '200 OK', gzip(SSE_TYPE))],
  ),
  row(
    'compressed bomb (80 MB)',
    [broken, (request) => send(request, bombJson(), '200 OK', gzip(JSON_TYPE))],
    [broken, (request) => send(request, bombStream(), '200 OK', gzip(SSE_TYPE))],
  ),
  row(
    'says gzip, is plain',
    [broken, (request) => send(request, ANSWER, '200 OK', gzip(JSON_TYPE))],
    [broken, (request) => send(request, ROLE + WORD + FINISH + DONE, '200 OK', gzip(SSE_TYPE))],
    { short: true },
  ),
  row(
    'an encoding that nobody knows',
    [broken, (request) => send(request, ANSWER, '200 OK', `${JSON_TYPE}Content-Encoding: rot13\r\n`)],
    [broken, (request) => send(request, ROLE + WORD, '200 OK', `${SSE_TYPE}Content-Encoding: rot13\r\n`)],
  ),
  row(
    'compressed and cut',
    [broken, (request) => send(request, ZIPPED.subarray(0, 60), '200 OK', gzip(JSON_TYPE))],
    [broken, (request) => send(request, ZIPPED_STREAM.subarray(0, 20), '200 OK', gzip(SSE_TYPE))],
  ),
]
