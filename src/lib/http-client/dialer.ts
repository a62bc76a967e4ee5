// The one outbound dialer: parses each URL once, checks every address its name resolves to, connects to the checked
// address by its literal (a later change of the name has no effect) and never follows a redirect.
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { type Dial, DialFailure, type DialLimits, type DialRequest, type DialResponse } from './dial.ts'
import { addressRefusal, hostRefusal, plainHost, urlError } from './egress.ts'
import { type Destination, pooledClient } from './pool.ts'

export interface DialerDeps {
  /** Permits loopback, private and link-local addresses. Instance metadata is never permitted. */
  readonly allowPrivate: boolean
  /** Every address of a name, best first. Default: the system's resolver, IPv4 first. */
  readonly resolve?: (host: string) => Promise<readonly string[]>
  /** Monotonic milliseconds. */
  readonly nowMs?: () => number
  /** How long a resolution is cached. Default 30 s. */
  readonly resolutionTtlMs?: number
  /** Called with each host that `allowPrivate` would permit. */
  readonly onPrivate?: (host: string) => void
  /** PEM certificates to trust besides the system's, for private authorities. */
  readonly ca?: string
}

interface ParsedUrl {
  readonly secure: boolean
  readonly name: string
  readonly port: number
  readonly host: string
  readonly path: string
  readonly literal: boolean
  /** Destinations by checked address; bounded by MOST_ADDRESSES. */
  readonly destinations: Map<string, Destination>
}

const MAX_CACHED = 1_000
const monotonicMs = (): number => performance.now()

const systemResolve = async (host: string) =>
  (await lookup(host, { all: true, order: 'ipv4first' })).map(({ address }) => address)

/** Rejects when the signal aborts or the time is over; `work` goes on. */
const within = <Value>(work: Promise<Value>, limits: DialLimits, timeoutMs: number): Promise<Value> =>
  new Promise((resolve, reject) => {
    const finish = () => {
      clearTimeout(timer)
      limits.signal.removeEventListener('abort', onAbort)
    }
    const onAbort = () => {
      finish()
      reject(new DialFailure('canceled', 'the request was canceled'))
    }
    const timer = setTimeout(() => {
      finish()
      reject(new DialFailure('timeout_connect', `no address was found within ${timeoutMs} ms`))
    }, timeoutMs)
    limits.signal.addEventListener('abort', onAbort)
    work.finally(finish).then(resolve, reject)
  })

const setBounded = <Value>(map: Map<string, Value>, key: string, value: Value) => {
  if (map.size >= MAX_CACHED) map.delete(map.keys().next().value!)
  map.set(key, value)
}

/** Parses and checks a URL; the result is cached by its text. */
const createUrls = ({ allowPrivate, onPrivate }: DialerDeps) => {
  const urls = new Map<string, ParsedUrl>()
  return (text: string): ParsedUrl => {
    const known = urls.get(text)
    if (known !== undefined) return known
    const url = URL.parse(text)
    if (url === null) throw new DialFailure('invalid_url', 'the address is no valid URL')
    const error = urlError(url)
    if (error !== null) throw new DialFailure('invalid_url', error)
    const refusal = hostRefusal(url, allowPrivate)
    if (refusal !== null) {
      if (hostRefusal(url, true) === null) onPrivate?.(plainHost(url.hostname))
      throw new DialFailure('blocked', refusal)
    }
    const name = plainHost(url.hostname)
    const secure = url.protocol === 'https:'
    const port = url.port === '' ? (secure ? 443 : 80) : Number(url.port)
    const path = url.pathname + url.search
    const literal = isIP(name) !== 0
    const parsed = { secure, name, port, host: url.host, path, literal, destinations: new Map() }
    setBounded(urls, text, parsed)
    return parsed
  }
}

/** Checked addresses of names, cached for `resolutionTtlMs`. Concurrent lookups of one name share one lookup. */
const createResolver = ({
  allowPrivate,
  resolve = systemResolve,
  nowMs = monotonicMs,
  resolutionTtlMs = 30_000,
  onPrivate,
}: DialerDeps) => {
  const resolved = new Map<string, { readonly addresses: readonly string[]; readonly untilMs: number }>()
  const resolving = new Map<string, Promise<readonly string[]>>()

  const lookUp = async (name: string): Promise<readonly string[]> => {
    let addresses: readonly string[]
    try {
      addresses = await resolve(name)
    } catch (error) {
      throw new DialFailure('dns', `${name} could not be resolved`, error)
    }
    if (addresses.length === 0) throw new DialFailure('dns', `${name} has no address`)
    for (const address of addresses) {
      // One refused address refuses the name: which of several addresses is used must not depend on chance.
      const refusal = addressRefusal(address, allowPrivate)
      if (refusal === null) continue
      if (addressRefusal(address, true) === null) onPrivate?.(name)
      throw new DialFailure('blocked', `${name} resolves to an address that ${refusal}`)
    }
    setBounded(resolved, name, { addresses, untilMs: nowMs() + resolutionTtlMs })
    return addresses
  }

  return {
    addresses(name: string, limits: DialLimits): Promise<readonly string[]> | readonly string[] {
      const known = resolved.get(name)
      if (known !== undefined && nowMs() < known.untilMs) return known.addresses
      let pending = resolving.get(name)
      if (pending === undefined) {
        pending = lookUp(name).finally(() => resolving.delete(name))
        resolving.set(name, pending)
      }
      return within(pending, limits, limits.connectMs)
    },
    forget: (name: string) => {
      resolved.delete(name)
    },
  }
}

const MOST_ADDRESSES = 4

const destinationOf = (url: ParsedUrl, address: string): Destination => {
  const known = url.destinations.get(address)
  if (known !== undefined) return known
  const { secure, name, port, host, path, literal } = url
  const serverName = literal ? null : name
  const key = `${secure ? 's' : 'p'}|${address}|${port}|${serverName}`
  const destination: Destination = { secure, address, port, host, path, serverName, key, heads: [] }
  if (url.destinations.size >= MOST_ADDRESSES) url.destinations.clear()
  url.destinations.set(address, destination)
  return destination
}

/** `dial` is the port that the gateway uses; `close` closes idle connections. */
export const createDialer = (deps: DialerDeps): { readonly dial: Dial; close(): void } => {
  const client = pooledClient({ ca: deps.ca })
  const parse = createUrls(deps)
  const resolver = createResolver(deps)
  const nowMs = deps.nowMs ?? monotonicMs

  /**
   * Tries one address after another, while nothing was sent. `connectMs` bounds all of them together, the lookup
   * included.
   */
  const dialName = async (url: ParsedUrl, request: DialRequest, limits: DialLimits): Promise<DialResponse> => {
    const startedMs = nowMs()
    const known = resolver.addresses(url.name, limits)
    const addresses = known instanceof Promise ? await known : known
    let failure: unknown = null
    const count = Math.min(addresses.length, MOST_ADDRESSES)
    for (let i = 0; i < count; i++) {
      const leftMs = limits.connectMs - (nowMs() - startedMs)
      if (i > 0 && leftMs < 1) break
      // Each address has an equal share of the time left: one that does not reply must not use up the time of the next.
      const whole = count === 1 && known === addresses
      const own = whole ? limits : { ...limits, connectMs: Math.max(1, leftMs / (count - i)) }
      try {
        return await client.send(destinationOf(url, addresses[i]!), request, own)
      } catch (error) {
        failure = error
        // The next address is tried only while nothing was sent to this one.
        if (!(error instanceof DialFailure) || (error.kind !== 'connect' && error.kind !== 'timeout_connect'))
          throw error
      }
    }
    // The name may have moved.
    resolver.forget(url.name)
    throw failure
  }

  const dial: Dial = (request, limits) => {
    if (limits.signal.aborted) return Promise.reject(new DialFailure('canceled', 'the request was canceled'))
    let url: ParsedUrl
    try {
      url = parse(request.url)
    } catch (error) {
      return Promise.reject(error)
    }
    return url.literal ? client.send(destinationOf(url, url.name), request, limits) : dialName(url, request, limits)
  }
  return { dial, close: () => client.close() }
}
