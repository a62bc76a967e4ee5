// The independent reader: the HTTP server of Node, whose parser is llhttp, on streams in memory. Reads one case a line
// from stdin (its pieces in base64), and prints one line for each: the requests that were read to their end, and
// whether the rest was refused.
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { Duplex } from 'node:stream'

class MemorySocket extends Duplex {
  written = ''
  constructor() {
    super({ allowHalfOpen: true })
    this.remoteAddress = '127.0.0.1'
  }
  _read() {}
  _write(bytes, _, done) {
    this.written += bytes.toString('latin1')
    done()
  }
  setTimeout() {
    return this
  }
  setNoDelay() {}
  setKeepAlive() {}
  ref() {}
  unref() {}
}

const server = createServer({ keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0 })
server.timeout = 0
server.maxRequestsPerSocket = 0
let requests = []
let isRefused = false
const take = (request, response) => {
  let body = ''
  request.on('data', (bytes) => {
    body += bytes.toString('latin1')
  })
  request.on('error', () => {})
  request.on('end', () => {
    const { method, url: target, rawHeaders } = request
    const headers = []
    for (let i = 0; i < rawHeaders.length; i += 2) headers.push([rawHeaders[i], rawHeaders[i + 1]])
    requests.push({ method, target, headers, body })
    response.end()
  })
}
server.on('request', take)
server.on('checkContinue', take)
server.on('checkExpectation', (_, response) => {
  isRefused = true
  response.writeHead(417, { connection: 'close' })
  response.end()
})
server.on('connect', (_, socket) => {
  isRefused = true
  socket.destroy()
})
// The requests before the error are still read to their end.
server.on('clientError', () => {
  isRefused = true
})

const turn = () => new Promise((resolve) => setImmediate(resolve))

const lines = createInterface({ input: process.stdin })
for await (const line of lines) {
  const pieces = JSON.parse(line)
  requests = []
  isRefused = false
  const socket = new MemorySocket()
  socket.on('error', () => {})
  server.emit('connection', socket)
  for (const piece of pieces) {
    if (socket.destroyed) break
    socket.push(Buffer.from(piece, 'base64'))
    await turn()
  }
  for (let turns = 0; turns < 3; turns++) await turn()
  // A request without its host is refused by an answer, not by an error.
  const isAnsweredSo = /^HTTP\/1\.1 (?:400|417|431|501)/m.test(socket.written)
  process.stdout.write(`${JSON.stringify({ requests, refused: isRefused || isAnsweredSo })}\n`)
  socket.destroy()
}
process.exit(0)
