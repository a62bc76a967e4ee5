// Checks of addresses in the settings, before any connection: a slip stops the start with its key, and not later with a
// client's own message.
import { headerPairs } from '../lib/http/header-pairs.ts'
import { hostNameOf } from '../lib/http/host-names.ts'
import { hostPort } from '../lib/http/host-port.ts'
import { FormatRegistry } from '../lib/schema/schema.ts'

/**
 * The URL when its scheme is one of these, its port from 1 to 65535, and name and password can be decoded; else null.
 */
const urlOf = (text: string, schemes: readonly string[]): URL | null => {
  if (!URL.canParse(text)) return null
  const url = new URL(text)
  if (!schemes.includes(url.protocol) || !text.includes('://') || url.port === '0') return null
  return canBeDecoded(url.username) && canBeDecoded(url.password) ? url : null
}

const canBeDecoded = (text: string): boolean => {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

/**
 * Several hosts with commas between them are tried in turn by the client. Of what `require_auth` may be for libpq, only
 * SCRAM alone can be required.
 */
const isPostgresUrl = (text: string): boolean => {
  if (/[?&]require_auth=(?!scram-sha-256(&|$))/.test(text)) return false
  const [, before, hosts = '', after] = /^([a-z]+:\/\/(?:[^/?#]*@)?)([^@/?#]*)(.*)$/s.exec(text) ?? []
  if (before === undefined) return false
  return hosts.split(',').every((host) => urlOf(before + host + after, ['postgres:', 'postgresql:']) !== null)
}

/** Whether the text is the URL of a Redis; the path, when there is one, is the number of a database. */
const isRedisUrl = (text: string): boolean => {
  const url = urlOf(text, ['redis:', 'rediss:'])
  return url !== null && /^(\/\d{0,9})?$/.test(url.pathname)
}

export const isCollectorUrl = (text: string): boolean => {
  const url = urlOf(text, ['http:', 'https:'])
  return url !== null && url.hostname !== ''
}

/** An address or a name: no URL, no brackets, no port. */
const isHost = (text: string): boolean => /^\w([\w.-]*[\w.])?$/.test(text) || isIpv6(text.replace(/%[\w.-]+$/, ''))

const isIpv6 = (text: string): boolean => /^[\da-f:.]+$/i.test(text) && URL.canParse(`http://[${text}]`)

/** An origin as browsers send it: `https://app.example.com`, `http://localhost:3000`; or `*`. */
const isOrigin = (text: string): boolean => {
  if (text === '*') return true
  const url = urlOf(text, ['http:', 'https:'])
  return url !== null && url.origin === text && hostNameOf(url.host) !== null
}

/** An http or https URL without user, query and fragment. */
const isPublicUrl = (text: string): boolean => {
  const url = urlOf(text, ['http:', 'https:'])
  return url !== null && url.hostname !== '' && url.username === '' && url.password === '' && !/[?#]/.test(text)
}

FormatRegistry.Set('gateway-origin', isOrigin)
FormatRegistry.Set('gateway-public-url', isPublicUrl)
FormatRegistry.Set('gateway-allowed-host', (text) => hostNameOf(text) !== null)
FormatRegistry.Set(
  'gateway-env-binding',
  (text) => /^[A-Za-z_]\w*$/.test(text) && !/^(?:GATEWAY_.*|MASTER_KEY)$/i.test(text),
)
FormatRegistry.Set('gateway-postgres-url', isPostgresUrl)
FormatRegistry.Set('gateway-redis-url', isRedisUrl)
FormatRegistry.Set('gateway-collector-url', isCollectorUrl)
FormatRegistry.Set('gateway-host', isHost)
FormatRegistry.Set('gateway-host-port', (text) => hostPort(text) !== null)
FormatRegistry.Set('gateway-header-pairs', (text) => !headerPairs(text).includes(null))
