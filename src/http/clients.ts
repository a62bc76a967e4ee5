// Where a request comes from: the other end of its connection, or what a trusted proxy forwards about it.
import { type Forwarded, forwardedBy } from '../lib/http/forwarded.ts'
import { isLoopbackName } from '../lib/http/host-names.ts'
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
  /** All hosts that the request names, a trusted proxy's `X-Forwarded-Host` too: each must be one of the gateway. */
  readonly addressed: readonly string[]
  /** It is on this machine: its address is loopback, and neither peer nor headers show a proxy in between. */
  readonly isLocal: boolean
}

/** Whether a header says that a proxy forwards the request. */
const isForwarded = (headers: Headers): boolean =>
  headers.has('x-forwarded-for') ||
  headers.has('x-forwarded-host') ||
  headers.has('x-real-ip') ||
  headers.has('forwarded') ||
  headers.has('via')

/** Passes on what is known of a request to one that is made of it. */
export const samePeer = (request: Request, made: Request): void => {
  const address = peers.get(request)
  if (address !== undefined) peers.set(made, address)
}

export type Clients = (request: Request) => Client

/** `trusted`: `server.trusted_proxies`. */
export const clientsBehind = (trusted: readonly string[]): Clients => {
  const forwarded = forwardedBy(trusted)
  return (request) => {
    const { headers } = request
    const { address, tls, host, isProxied }: Forwarded = forwarded(peers.get(request) ?? null, headers)
    const url = new URL(request.url)
    const hosts = host === null ? [url.host] : [url.host, host.toLowerCase()]
    const named = headers.get('host')
    // A page whose name is rebound can send `X-Forwarded-*` from this machine, where a proxy may be trusted: what its
    // browser puts in `Host` counts all the same.
    const addressed = [url.host, named, host].filter((each) => each !== null)
    const isLocal = !isProxied && isLoopbackName(address) && !isForwarded(headers)
    return { address, tls: tls || url.protocol === 'https:', hosts, addressed, isLocal }
  }
}
