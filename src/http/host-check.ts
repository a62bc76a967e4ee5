// Which `Host` the admin surface answers to. A page whose name is rebound to the address of the gateway has that name
// in `Host`, and its scripts count as the gateway's own in the browser.
import { type HostName, hostNameOf, isLoopbackName } from '../lib/http/host-names.ts'
import { GatewayError } from '../wire/errors.ts'
import type { Client, Clients } from './clients.ts'
import { pathOf } from './request-context.ts'

export interface HostSettings {
  /** `server.host`. */
  readonly listensOn: string
  /** `server.allowed_hosts`. */
  readonly allowed: readonly string[]
  /** `server.public_url`. */
  readonly publicUrl: string | null
}

export interface AllowedHosts {
  /** Whether a client may address the gateway by this host, which may have a port. */
  has(host: string): boolean
  /** Whether other hosts are refused: not where the gateway listens beyond loopback and no list is set. */
  readonly isEnforced: boolean
}

/** The names of loopback, the address that is listened on, the public URL's, and those of the list. */
export const allowedHosts = ({ listensOn, allowed, publicUrl }: HostSettings): AllowedHosts => {
  const publicHost = publicUrl === null ? [] : [new URL(publicUrl).hostname]
  const names = [listensOn, ...publicHost, ...allowed].map(hostNameOf).filter((host) => host !== null)
  const fits = ({ name, port }: HostName) => names.some((one) => one.name === name && (one.port ?? port) === port)
  return {
    isEnforced: isLoopbackName(listensOn) || allowed.length > 0,
    has(text) {
      const host = hostNameOf(text)
      return host !== null && (isLoopbackName(host.name) || fits(host))
    },
  }
}

const GUARDED = /^\/+(?:admin\/+v1|console)(?:\/|$)/

/** Whether the path belongs to the admin surface or the console, in any spelling. */
const isGuarded = (path: string): boolean => {
  try {
    return GUARDED.test(decodeURIComponent(path).toLowerCase())
  } catch {
    return GUARDED.test(path.toLowerCase())
  }
}

const SHOWN_CHARS = 128

/** Throws 403 for a request to the admin surface or the console by a host that the gateway does not answer to. */
export const requireAllowedHost = (request: Request, clients: Clients, hosts: AllowedHosts): void => {
  if (!hosts.isEnforced || !isGuarded(pathOf(request))) return
  const { addressed } = clients(request)
  const other = addressed.find((host) => !hosts.has(host))
  if (other === undefined) return
  throw new GatewayError(
    'permission_error',
    `the admin API is not served under the host "${other.slice(0, SHOWN_CHARS)}": add it to server.allowed_hosts ` +
      '(GATEWAY_SERVER_ALLOWED_HOSTS), or set server.public_url',
    { param: 'Host' },
  )
}

/** Whether the client is on this machine and addresses the gateway by a name of its own. */
export const isAtHome = (client: Client, hosts: AllowedHosts): boolean =>
  client.isLocal && client.addressed.every((host) => hosts.has(host))
