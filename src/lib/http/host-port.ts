// `host:port`, as brokers are named.

export interface HostPort {
  /** A name or an address; IPv6 without its brackets. */
  readonly host: string
  readonly port: number
}

/** Null for another form: without a port from 1 to 65535, with a scheme or a path. */
export const hostPort = (text: string): HostPort | null => {
  const [, host, digits] = /^(\[[\da-f:.]+(?:%\w+)?\]|[^\s/@[\]]+):(\d{1,5})$/i.exec(text) ?? []
  const port = Number(digits)
  if (host === undefined || port < 1 || port > 65_535) return null
  return { host: host.replace(/^\[(.*)\]$/, '$1'), port }
}
