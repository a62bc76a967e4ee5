// An open-loop load: requests are due at a fixed rate, even while earlier ones are unanswered. A request that finds no
// free connection is counted as not sent.

export interface LoadResult {
  /** Complete answers: whole streams that end with `[DONE]` and no error. */
  served: number
  /** 429. */
  refused: number
  /** Anything else: another status, a connection that broke, a stream with an error. */
  failed: number
  /** Due while every connection was taken. */
  unsent: number
  /** Of the served ones, from the moment they were due. */
  readonly servedMs: number[]
  readonly refusedMs: number[]
}

interface Connection {
  socket: Bun.Socket<Connection> | null
  dueMs: number
  /** Where its request is counted. */
  of: LoadResult
  status: number
  /** The newest bytes: enough to see how an answer ends. */
  tail: string
  /** Body bytes that are still to come; -1: chunked. */
  left: number
  isHead: boolean
  hasDone: boolean
}

const TAIL = 512
const HEAD_END = '\r\n\r\n'

export interface OpenLoad {
  /**
   * Sends at that rate for so long, then waits for the requests in flight (bounded). Requests due in the first
   * `onsetMs` are counted separately.
   */
  run(perSecond: number, forMs: number, onsetMs?: number): Promise<LoadResult & { readonly onset: LoadResult }>
  close(): void
}

/** Up to `connections` at once to a port of this machine, each sending the same bytes. */
export const openLoad = (port: number, request: Uint8Array, connections: number): OpenLoad => {
  const idle: Connection[] = []
  let open = 0
  let underWay = 0

  const ended = (connection: Connection, isWhole: boolean) => {
    underWay--
    const tookMs = performance.now() - connection.dueMs
    const result = connection.of
    connection.dueMs = 0
    if (!isWhole) result.failed++
    else if (connection.status === 429) {
      result.refused++
      result.refusedMs.push(tookMs)
    } else if (connection.status === 200 && connection.hasDone) {
      result.served++
      result.servedMs.push(tookMs)
    } else result.failed++
  }
  const read = (connection: Connection, bytes: Buffer) => {
    let text = bytes.toString('latin1')
    if (connection.isHead) {
      connection.tail += text
      const end = connection.tail.indexOf(HEAD_END)
      if (end < 0) return
      const head = connection.tail.slice(0, end)
      text = connection.tail.slice(end + HEAD_END.length)
      connection.tail = ''
      connection.isHead = false
      connection.status = Number(head.slice(9, 12))
      const length = /content-length: (\d+)/i.exec(head)?.[1]
      connection.left = length === undefined ? -1 : Number(length)
    }
    const seen = connection.tail + text
    if (seen.includes('data: [DONE]') && !seen.includes('event: error')) connection.hasDone = true
    connection.tail = seen.slice(-TAIL)
    if (connection.left >= 0) connection.left -= text.length
    const isOver = connection.left === 0 || (connection.left < 0 && seen.endsWith('0\r\n\r\n'))
    if (!isOver) return
    ended(connection, true)
    idle.push(connection)
  }
  const connect = async (dueMs: number, of: LoadResult): Promise<void> => {
    open++
    const connection: Connection = {
      socket: null,
      dueMs,
      of,
      status: 0,
      tail: '',
      left: 0,
      isHead: true,
      hasDone: false,
    }
    try {
      await Bun.connect<Connection>({
        hostname: '127.0.0.1',
        port,
        data: connection,
        socket: {
          open(socket) {
            connection.socket = socket
            send(connection, dueMs, of)
          },
          data: (_, bytes) => read(connection, bytes),
          close() {
            open--
            const at = idle.indexOf(connection)
            if (at >= 0) idle.splice(at, 1)
            if (connection.dueMs > 0) ended(connection, false)
          },
        },
      })
    } catch {
      open-- // refused: the accept queue is full
      underWay--
      of.failed++
    }
  }
  const send = (connection: Connection, dueMs: number, of: LoadResult) => {
    Object.assign(connection, { dueMs, of, status: 0, tail: '', left: 0, isHead: true, hasDone: false })
    connection.socket!.write(request)
  }
  return {
    async run(perSecond, forMs, onsetMs = 0) {
      const [onset, later] = [emptyResult(), emptyResult()]
      const startedMs = performance.now()
      let due = 0
      for (;;) {
        const nowMs = performance.now()
        const untilNow = Math.floor((Math.min(nowMs - startedMs, forMs) * perSecond) / 1_000)
        for (; due < untilNow; due++) {
          const dueMs = startedMs + (due * 1_000) / perSecond
          const result = dueMs - startedMs < onsetMs ? onset : later
          const connection = idle.pop()
          if (connection === undefined && open >= connections) {
            result.unsent++
            continue
          }
          underWay++
          if (connection === undefined) void connect(dueMs, result)
          else send(connection, dueMs, result)
        }
        if (nowMs - startedMs >= forMs) break
        await Bun.sleep(2)
      }
      for (let i = 0; i < 500 && underWay > 0; i++) await Bun.sleep(10)
      return { ...later, onset }
    },
    close() {
      for (const { socket } of idle.splice(0)) socket?.end()
    },
  }
}

const emptyResult = (): LoadResult => ({ served: 0, refused: 0, failed: 0, unsent: 0, servedMs: [], refusedMs: [] })
