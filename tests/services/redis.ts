// A Redis of its own: no persistence, loopback, a free port.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './gateway.ts'

const START_DEADLINE_MS = 10_000

/** Starts a server and waits until it answers. */
export const startRedis = async (): Promise<{ url: string; pid: number; stop(): Promise<void> }> => {
  const folder = await mkdtemp(join(tmpdir(), 'gatelog-redis-'))
  const port = freePort()
  const flags = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder]
  const child = Bun.spawn(['redis-server', ...flags], { stdin: 'ignore', stdout: 'ignore', stderr: 'ignore' })
  const stop = async () => {
    child.kill()
    await child.exited
    await rm(folder, { recursive: true, force: true })
  }
  const deadline = performance.now() + START_DEADLINE_MS
  while (performance.now() < deadline && child.exitCode === null) {
    if (await answers(port)) return { url: `redis://127.0.0.1:${port}`, pid: child.pid, stop }
    await Bun.sleep(20)
  }
  await stop()
  throw new Error(`redis-server did not answer on port ${port}`)
}

const answers = async (port: number): Promise<boolean> => {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  try {
    const socket = await Bun.connect({
      hostname: '127.0.0.1',
      port,
      socket: {
        data: (_, bytes) => resolve(bytes.toString().startsWith('+PONG')),
        error: () => resolve(false),
        close: () => resolve(false),
      },
    })
    socket.write('PING\r\n')
    const answered = await promise
    socket.end()
    return answered
  } catch {
    return false // not listening yet
  }
}
