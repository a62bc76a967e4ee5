// A port that takes no connection: its listener stands still and its queue is full, so that the kernel answers nobody any more.
import { createConnection, type Socket } from 'node:net'

const LISTENER = `const { port } = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } }); console.log(port); process.stdin.resume()`
/** The kernel's bound of a queue (`somaxconn`) is 4,096. */
const MOST = 5_000
const TAKEN_WITHIN_MS = 300

export interface FullListener {
  readonly port: number
  stop(): Promise<void>
}

/** Whether the kernel took it. */
const connects = (socket: Socket): Promise<boolean> => {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  socket.once('connect', () => resolve(true))
  setTimeout(() => resolve(false), TAKEN_WITHIN_MS)
  return promise
}

export const startFullListener = async (): Promise<FullListener> => {
  const child = Bun.spawn([process.execPath, '-e', LISTENER], { stdin: 'pipe', stdout: 'pipe' })
  const { value } = await child.stdout.getReader().read()
  const port = Number(new TextDecoder().decode(value))
  child.kill('SIGSTOP')
  const held: Socket[] = []
  const stop = async () => {
    for (const socket of held) socket.destroy()
    child.kill('SIGKILL')
    await child.exited
  }
  for (let isFull = false; !isFull; ) {
    const more = Array.from({ length: 64 }, () => createConnection({ host: '127.0.0.1', port }).on('error', () => {}))
    held.push(...more)
    isFull = !(await Promise.all(more.map(connects))).every(Boolean)
    if (held.length > MOST) {
      await stop()
      throw new Error(`port ${port} still takes connections after ${MOST}`)
    }
  }
  return { port, stop }
}
