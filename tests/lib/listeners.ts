// Listeners that are not what a client expects: silent, hanging up, with TLS, or saying one thing.

export interface Listener {
  readonly port: number
  stop(): void
}

const listen = (socket: Bun.SocketHandler<undefined>, tls?: { cert: string; key: string }): Listener => {
  const server = Bun.listen<undefined>({
    hostname: '127.0.0.1',
    port: 0,
    socket,
    ...(tls === undefined ? {} : { tls }),
  })
  return { port: server.port, stop: () => server.stop(true) }
}

/** Takes connections and never says anything. */
export const silentListener = (): Listener => listen({ data() {} })

/** Closes a connection at the first bytes. */
export const hangingUp = (): Listener => listen({ data: (socket) => void socket.end() })

/** Says the same to whatever it gets. */
export const saying = (text: string): Listener => listen({ data: (socket) => void socket.write(text) })

/** With TLS, and a certificate that no authority has signed, for another name. */
export const withTls = (): Listener => listen({ data: (socket) => void socket.end() }, selfSigned())

let made: { cert: string; key: string } | null = null
const selfSigned = (): { cert: string; key: string } => {
  if (made !== null) return made
  const { stdout, exitCode } = Bun.spawnSync(
    [
      ...['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-days', '2', '-subj', '/CN=other.example', '-keyout', '-', '-out', '-'],
    ],
    { stderr: 'ignore' },
  )
  if (exitCode !== 0) throw new Error('openssl made no certificate')
  const [key = '', cert = ''] = stdout.toString().match(/-----BEGIN[\s\S]*?-----END .*-----\n/g) ?? []
  made = { cert, key }
  return made
}
