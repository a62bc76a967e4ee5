// A Redis of its own: no persistence, loopback, a free port.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from './eventually.ts'
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
  const isUp = async () => child.exitCode !== null || (await answers(port))
  try {
    await eventually(`redis-server answers on port ${port}`, isUp, { limitMs: START_DEADLINE_MS })
    if (child.exitCode !== null) throw new Error(`redis-server ended with ${child.exitCode}`)
  } catch (error) {
    await stop()
    throw error
  }
  return { url: `redis://127.0.0.1:${port}`, pid: child.pid, stop }
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
