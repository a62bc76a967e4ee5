// Thousands of streams that stay open at once, in the load process: clients that read every chunk, and an upstream that
// sends chunks at a given rate.
import type { Socket } from 'bun'
import { ASKS, LAST_CHUNK } from './fake-upstream.ts'

/** `open`: so many more, by so many at a time. `tick`: chunks for them in turn. `end`: the clients leave. */
export type HoldJob =
  | {
      readonly hold: 'open'
      readonly port: number
      readonly path: string
      readonly headers: Readonly<Record<string, string>>
      readonly count: number
    }
  | { readonly hold: 'tick'; readonly perSecond: number; readonly durationMs: number }
  | { readonly hold: 'end' }

export interface HoldResult {
  /**
   * `open`: streams that are open. `failed`: streams that ended or were refused since the first one was opened. For the
   * job `end`: the values before it.
   */
  readonly open: number
  readonly failed: number
  /** What the upstream sent, and the pieces that the clients got, in this job. */
  readonly sent: number
  readonly received: number
}

const OPENING_AT_ONCE = 64
const TICK_MS = 2
const SETTLE_MS = 300

export const heldStreams = (tick: (from: number, count: number) => number) => {
  const clients = new Set<Socket<{ answered: boolean }>>()
  let failed = 0
  let received = 0
  let next = 0

  const open = async ({ port, path, headers, count }: HoldJob & { hold: 'open' }) => {
    const body = JSON.stringify({
      model: 'bench-model',
      stream: true,
      messages: [{ role: 'user', content: `Say something, ${ASKS.held}.` }],
    })
    const lines = Object.entries({ Host: '127.0.0.1', 'Content-Type': 'application/json', ...headers })
    const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
    const request = Buffer.from(`POST ${path} HTTP/1.1\r\n${head}Content-Length: ${body.length}\r\n\r\n${body}`)
    let left = count
    const opener = async () => {
      while (left-- > 0) {
        const opened = Promise.withResolvers<void>()
        await Bun.connect<{ answered: boolean }>({
          hostname: '127.0.0.1',
          port,
          data: { answered: false },
          socket: {
            open(socket) {
              clients.add(socket)
              socket.write(request)
            },
            data(socket, bytes) {
              received++
              // A stream that ends leaves its connection open.
              if (bytes.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK)) socket.terminate()
              if (socket.data.answered) return
              if (bytes.toString('latin1', 0, 5) === 'HTTP/' && !bytes.toString('latin1', 9, 12).startsWith('2'))
                socket.terminate()
              if (!bytes.includes('data: ')) return
              socket.data.answered = true
              opened.resolve()
            },
            close(socket) {
              if (clients.delete(socket)) failed++
              opened.resolve()
            },
          },
        })
        await opened.promise
      }
    }
    await Promise.all(Array.from({ length: OPENING_AT_ONCE }, opener))
  }

  /** Answers how many it sent. */
  const ticks = async (perSecond: number, durationMs: number): Promise<number> => {
    const startedMs = performance.now()
    let sent = 0
    for (;;) {
      const passedMs = Math.min(durationMs, performance.now() - startedMs)
      const due = Math.floor((passedMs * perSecond) / 1_000) - sent
      next = tick(next, due)
      sent += due
      if (passedMs >= durationMs) return sent
      await Bun.sleep(TICK_MS)
    }
  }

  return {
    async run(job: HoldJob): Promise<HoldResult> {
      received = 0
      let sent = 0
      const before = { open: clients.size, failed }
      if (job.hold === 'open') await open(job)
      else if (job.hold === 'tick') sent = await ticks(job.perSecond, job.durationMs)
      else {
        for (const socket of clients) {
          clients.delete(socket)
          socket.terminate()
        }
        failed = 0
        return { ...before, sent, received }
      }
      await Bun.sleep(SETTLE_MS)
      return { open: clients.size, failed, sent, received }
    },
  }
}
