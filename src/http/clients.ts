// Where a request comes from: the other end of its connection, or what a trusted proxy forwards about it.
import { type Forwarded, forwardedBy } from '../lib/http/forwarded.ts'
import type { Peers } from '../lib/http-server/http-server.ts'

const peers = new WeakMap<Request, string>()

/** Records the peer address of a request, for `Clients`. */
export const notePeer = (request: Request, server: Peers | undefined): void => {
  const address = server?.requestIP(request)?.address
  if (address !== undefined) peers.set(request, address)
}

export interface Client {
  readonly address: string
  /** Whether its connection is encrypted, as far as headers and URL show. */
  readonly tls: boolean
  /** The host names, in lower case and with their ports, by which the client may have addressed the gateway. */
  readonly hosts: readonly string[]
}

export type Clients = (request: Request) => Client

/** `trusted`: `server.trusted_proxies`. */
export const clientsBehind = (trusted: readonly string[]): Clients => {
  const forwarded = forwardedBy(trusted)
  return (request) => {
    const { address, tls, host }: Forwarded = forwarded(peers.get(request) ?? null, request.headers)
    const url = new URL(request.url)
    const hosts = host === null ? [url.host] : [url.host, host.toLowerCase()]
    return { address, tls: tls || url.protocol === 'https:', hosts }
  }
}
