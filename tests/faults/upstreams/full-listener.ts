// A port that takes no connection: the listening process is stopped and its queue is full, so that the kernel answers
// no connection attempt any more.
import { createConnection, type Socket } from 'node:net'

const LISTENER =
  `const { port } = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { ` +
  'data() {} } }); console.log(process.pid, port)'
// A stopped process cannot see the end of this one. A shell does, in whatever way this process ends.
const WATCHED = `exec 3<&0
"$@" 3<&- </dev/null & child=$!
cat <&3 >/dev/null
kill -9 $child`
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
  const shell = Bun.spawn(['sh', '-c', WATCHED, 'sh', process.execPath, '-e', LISTENER], {
    stdin: 'pipe',
    stdout: 'pipe',
  })
  const { value } = await shell.stdout.getReader().read()
  const [pid, port] = new TextDecoder().decode(value).split(' ').map(Number) as [number, number]
  process.kill(pid, 'SIGSTOP')
  const held: Socket[] = []
  const stop = async () => {
    for (const socket of held) socket.destroy()
    await shell.stdin.end()
    await shell.exited
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
