// The proxy of the fault rig applies its faults: a fault that never happens would make every row pass.
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { createConnection, createServer, type Server, type Socket } from 'node:net'
import { eventually } from './eventually.ts'
import { startTcpProxy } from './tcp-proxy.ts'

let proxy: Awaited<ReturnType<typeof startTcpProxy>>
let server: Server
let received: string

beforeEach(async () => {
  received = ''
  server = createServer((socket) => {
    socket.on('error', () => socket.destroy())
    socket.on('data', (bytes) => {
      received += bytes.toString()
      socket.write(bytes)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  proxy = await startTcpProxy()
  proxy.to = (server.address() as { port: number }).port
})
afterEach(async () => {
  await proxy.stop()
  await new Promise((resolve) => server.close(resolve))
})

/** A client, and all that happens to it in order. */
const connect = async () => {
  const happened: string[] = []
  let wake = () => {}
  const note = (what: string) => {
    happened.push(what)
    wake()
  }
  const socket: Socket = createConnection({ host: '127.0.0.1', port: proxy.port, allowHalfOpen: true })
  socket.on('connect', () => note('connect'))
  socket.on('data', (bytes) => note(`data ${bytes.toString()}`))
  socket.on('end', () => note('end'))
  socket.on('error', (error: NodeJS.ErrnoException) => note(`error ${error.code}`))
  socket.on('close', () => note('close'))
  const until = async (what: string) => {
    while (!happened.includes(what)) {
      if (happened.includes('close')) throw new Error(`closed before "${what}": ${happened.join(', ')}`)
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
    return happened
  }
  return { socket, happened, until }
}

test('passes both directions', async () => {
  const client = await connect()
  client.socket.write('hello')
  await client.until('data hello')
  expect(received).toBe('hello')
  client.socket.destroy()
})

test('loses answers only, or everything', async () => {
  const client = await connect()
  client.socket.write('a')
  await client.until('data a')
  proxy.dropAnswers = true
  client.socket.write('b')
  const other = await connect()
  await eventually('the server has both', () => received === 'ab')
  proxy.dropAnswers = false
  proxy.blackhole = true
  client.socket.write('c')
  other.socket.write('d')
  await other.until('connect')
  proxy.cut()
  await client.until('close')
  await other.until('close')
  expect(received).toBe('ab')
  expect(client.happened.filter((what) => what.startsWith('data'))).toEqual(['data a'])
})

test('delays in order, whatever is set meanwhile', async () => {
  const client = await connect()
  proxy.delayMs = 80
  const startedMs = performance.now()
  client.socket.write('slow')
  await client.until('data slow')
  expect(performance.now() - startedMs).toBeGreaterThanOrEqual(155)
  client.socket.destroy()
})

test('throttles', async () => {
  const client = await connect()
  proxy.bytesPerSecond = 1_000
  const startedMs = performance.now()
  client.socket.write('x'.repeat(100))
  await client.until(`data ${'x'.repeat(100)}`)
  expect(performance.now() - startedMs).toBeGreaterThanOrEqual(195)
  client.socket.destroy()
})

test('resets', async () => {
  const client = await connect()
  client.socket.write('a')
  await client.until('data a')
  expect(proxy.reset()).toBe(1)
  await client.until('error ECONNRESET')
})

test('closes one half: the client hears the end and is still heard', async () => {
  const client = await connect()
  client.socket.write('a')
  await client.until('data a')
  expect(proxy.halfClose()).toBe(1)
  await client.until('end')
  client.socket.write('b')
  await eventually('the server has both', () => received === 'ab')
  client.socket.destroy()
})

test('refuses, and takes connections again on the same port', async () => {
  await proxy.refuse()
  const refused = await connect()
  await refused.until('error ECONNREFUSED')
  await proxy.accept()
  const client = await connect()
  client.socket.write('again')
  await client.until('data again')
  client.socket.destroy()
})
