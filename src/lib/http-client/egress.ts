// Egress rules: what the gateway may connect to. The dialer checks every address before use, the registry every
// `base_url`.
import { isIP } from 'node:net'
import { type Range, range4, range6, v4, v6, within } from '../http/ip-range.ts'

/** `metadata` and `unroutable` are always refused, `private` unless `egress.allow_private`. */
export type AddressClass = 'public' | 'private' | 'metadata' | 'unroutable'

// Instance metadata of AWS, GCP, Azure, DigitalOcean and others; credentials of ECS and EKS; Scaleway; Tencent;
// Alibaba; Oracle; Azure's wire server.
const METADATA_4 = [
  '169.254.169.254/32',
  '169.254.170.2/32',
  '169.254.170.23/32',
  '169.254.42.42/32',
  '169.254.0.23/32',
  '100.100.100.200/32',
  '192.0.0.192/32',
  '168.63.129.16/32',
].map(range4)
// AWS, EKS, GCP, Scaleway, Oracle, OpenStack.
const METADATA_6 = [
  'fd00:ec2::254/128',
  'fd00:ec2::23/128',
  'fd20:ce::254/128',
  'fd00:42::42/128',
  'fd00:c1::a9fe:a9fe/128',
  'fe80::a9fe:a9fe/128',
].map(range6)
const METADATA_NAMES = new Set([
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'metadata.azure.internal',
  'metadata.tencentyun.com',
  'metadata.platformequinix.com',
  'metadata.packet.net',
  'api.metadata.cloud.ibm.com',
  'instance-data',
  'instance-data.ec2.internal',
])

// 0.0.0.0/8 reaches this host on Linux.
const PRIVATE_4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '192.0.0.0/24',
  '198.18.0.0/15',
].map(range4)
const PRIVATE_6 = ['::/128', '::1/128', 'fe80::/10', 'fec0::/10', 'fc00::/7'].map(range6)

// Multicast, reserved, broadcast, documentation, 6to4 relays; Teredo, which embeds an IPv4 address, and other protocol
// assignments.
const UNROUTABLE_4 = [
  '224.0.0.0/4',
  '240.0.0.0/4',
  '192.0.2.0/24',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '192.88.99.0/24',
].map(range4)
const UNROUTABLE_6 = ['ff00::/8', '2001::/23', '2001:db8::/32', '3fff::/20', '100::/64', '5f00::/16'].map(range6)

// Ports of other protocols that browsers refuse (Fetch standard, "bad port"), from FTP up: an HTTP request must not be
// read as mail or as a shell command.
const BAD_PORTS = new Set([
  0, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123,
  135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587,
  601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667,
  6668, 6669, 6679, 6697, 10080,
])

// Ranges that embed an IPv4 address, and by how many bits its last bit is shifted.
const EMBEDDED: readonly (readonly [Range, bigint])[] = [
  [range6('::ffff:0:0/96'), 0n], // mapped
  [range6('::ffff:0:0:0/96'), 0n], // translated
  [range6('64:ff9b::/96'), 0n], // NAT64
  [range6('64:ff9b:1::/48'), 0n], // NAT64, local
  [range6('::/96'), 0n], // compatible
  [range6('2002::/16'), 80n], // 6to4
]

const classify4 = (value: bigint): AddressClass => {
  if (within(value, METADATA_4, 32)) return 'metadata'
  if (within(value, UNROUTABLE_4, 32)) return 'unroutable'
  return within(value, PRIVATE_4, 32) ? 'private' : 'public'
}

/** Class of an IP literal; a zone id is ignored. A text that is no address is `unroutable`. */
export const classifyAddress = (address: string): AddressClass => {
  const family = isIP(address)
  if (family === 4) return classify4(v4(address))
  if (family !== 6) return 'unroutable'
  const value = v6(address)
  if (within(value, METADATA_6, 128)) return 'metadata'
  if (within(value, PRIVATE_6, 128)) return 'private'
  for (const [range, shift] of EMBEDDED)
    if (within(value, [range], 128)) return classify4((value >> shift) & 0xffffffffn)
  return within(value, UNROUTABLE_6, 128) ? 'unroutable' : 'public'
}

/** Why an address may not be connected to, as text, or null. */
export const addressRefusal = (address: string, allowPrivate: boolean): string | null => {
  const kind = classifyAddress(address)
  if (kind === 'public' || (kind === 'private' && allowPrivate)) return null
  if (kind === 'metadata') return 'is an instance-metadata address'
  if (kind === 'unroutable') return 'is not a usable address'
  return 'is a loopback, private or link-local address (egress.allow_private permits those)'
}

/** Hostname of a URL as the rules read it: lower case, without brackets and trailing dot. */
export const plainHost = (hostname: string): string => {
  const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  return host.endsWith('.') ? host.slice(0, -1) : host
}

/** What is wrong with a URL itself, or null: its scheme, a user name or fragment, its port, a missing host. */
export const urlError = (url: URL): string | null => {
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'only http and https are allowed'
  if (url.username !== '' || url.password !== '') return 'a URL must not carry a user name or password'
  if (url.href.includes('#')) return 'a URL must not carry a fragment (#)'
  if (url.port !== '' && BAD_PORTS.has(Number(url.port))) return `port ${url.port} is that of another protocol`
  return plainHost(url.hostname) === '' ? 'the URL has no host' : null
}

/**
 * Why a host is refused regardless of what its name resolves to, or null: metadata names, refused literals. The WHATWG
 * parser has already normalised 127.1, 0x7f.1, 2130706433 and full-width digits to 127.0.0.1.
 */
export const hostRefusal = (url: URL, allowPrivate: boolean): string | null => {
  const host = plainHost(url.hostname)
  if (METADATA_NAMES.has(host)) return `${host} is an instance-metadata name`
  if (isIP(host) === 0) return null
  const refusal = addressRefusal(host, allowPrivate)
  return refusal === null ? null : `${host} ${refusal}`
}

/** Both checks, for a `base_url` that is about to be stored. */
export const urlRefusal = (url: URL, allowPrivate: boolean): string | null =>
  urlError(url) ?? hostRefusal(url, allowPrivate)
