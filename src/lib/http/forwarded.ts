// The client behind proxies: `X-Forwarded-*` counts as far as trusted proxies have written it.
import { isIP } from 'node:net'
import { type Range, range4, range6, v4, v6, within } from './ip-range.ts'

/** Why a text is neither an address nor a CIDR range, or null. */
export const rangeError = (text: string): string | null => {
  const [base = '', bits, ...rest] = text.split('/')
  const family = isIP(base)
  if (family === 0 || base.includes('%') || rest.length > 0)
    return 'it must be an IP address or a range such as 10.0.0.0/8'
  const most = family === 4 ? 32 : 128
  if (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most)) return null
  return `the range of an IPv${family} address ends in /0 to /${most}`
}

export interface Forwarded {
  /** IP address; IPv4 also where it came as IPv6 (`::ffff:`); `unknown` without one. */
  readonly address: string
  /** Whether the client's connection uses TLS, as reported by a trusted proxy. */
  readonly tls: boolean
  /** `X-Forwarded-Host` of a trusted proxy, else null. */
  readonly host: string | null
  /** The connection's peer is a trusted proxy. */
  readonly isProxied: boolean
}

/** An address without brackets, port and zone; null for a text that is none. */
const plainAddress = (text: string): string | null => {
  let address = text.trim()
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(address)
  if (bracketed !== null) address = bracketed[1]!
  else if (/^[\d.]+:\d{1,5}$/.test(address)) address = address.slice(0, address.lastIndexOf(':'))
  const zone = address.indexOf('%')
  if (zone !== -1) address = address.slice(0, zone)
  if (isIP(address) === 0) return null
  const mapped = isIP(address) === 6 ? v6(address) : 0n
  if (mapped >> 32n !== 0xffffn) return address.toLowerCase()
  return [24n, 16n, 8n, 0n].map((shift) => (mapped >> shift) & 0xffn).join('.')
}

/**
 * Returns a function that finds the client: the right-most address that is no trusted proxy. `trusted`: valid addresses
 * and CIDR ranges.
 */
export const forwardedBy = (trusted: readonly string[]) => {
  const ranges = trusted.map((text) => {
    const [base = '', bits] = text.split('/')
    const plain = plainAddress(base)!
    const family = isIP(plain)
    // A range of mapped addresses is a range of IPv4 addresses.
    const shift = isIP(base) === 6 && family === 4 ? 96 : 0
    const full = `${plain}/${bits === undefined ? (family === 4 ? 32 : 128) : Math.max(0, Number(bits) - shift)}`
    return { family, range: family === 4 ? range4(full) : range6(full) }
  })
  const of = (wanted: number): Range[] => ranges.filter(({ family }) => family === wanted).map(({ range }) => range)
  const [ranges4, ranges6] = [of(4), of(6)]
  const isTrusted = (address: string): boolean =>
    isIP(address) === 4 ? within(v4(address), ranges4, 32) : within(v6(address), ranges6, 128)

  /** `peer`: the address of the connection's peer; null when it has none. */
  return (peer: string | null, headers: Headers): Forwarded => {
    const direct = peer === null ? null : plainAddress(peer)
    if (direct === null) return { address: 'unknown', tls: false, host: null, isProxied: false }
    if (ranges.length === 0 || !isTrusted(direct)) return { address: direct, tls: false, host: null, isProxied: false }
    let address = direct
    for (const entry of (headers.get('x-forwarded-for') ?? '').split(',').reverse()) {
      const before = plainAddress(entry)
      if (before === null) break
      address = before
      if (!isTrusted(before)) break
    }
    // Proxies in a chain append: the first value is of the proxy that the client connected to.
    const proto = headers.get('x-forwarded-proto')?.split(',')[0]?.trim().toLowerCase()
    const host = headers.get('x-forwarded-host')?.split(',')[0]?.trim() || null
    return { address, tls: proto === 'https', host, isProxied: true }
  }
}
