// Makes text of an upstream fit to be quoted to a client: no secrets, no addresses, one line, short.

import type { Reading } from '../port.ts'
import { withoutSecret } from './secret-forms.ts'

const MAX_CHARS = 500

const HEXTET = '[\\da-f]{1,4}'
const HEXTETS = `(?:${HEXTET}(?::${HEXTET}){0,6})?`
/** An IPv6 address, whole or with `::`, perhaps with a zone, in brackets and with a port. */
const IPV6 = new RegExp(
  String.raw`(?<![\w:.])\[?(?:(?:${HEXTET}:){7}${HEXTET}|${HEXTETS}::${HEXTETS})(?![\w:])(?:%\w+)?(?:\](?::\d+)?)?`,
  'gi',
)

const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [/\b(?:bearer|basic)\s+[\w.~+/=*-]+/gi, '[redacted]'],
  [/\b(?:sk|pk|rk|gsk|xai|hf|gw|r8|nvapi|pplx|csk|tgp)[-_][\w.*-]{6,}/gi, '[redacted]'],
  // Names of tools and fields begin so as well (`api_lookup_user`): a key has digits, stars in place of them, or is
  // long.
  [/\b(?:key|api)[-_](?:(?=[\w.*-]*[\d*])[\w.*-]{6,}|[\w.*-]{32,})/gi, '[redacted]'],
  [/\b(?:AIza|AKIA|ASIA|eyJ)[\w.-]{12,}/g, '[redacted]'],
  [/\b[a-z][a-z\d+.-]*:\/\/\S+/gi, '[url]'],
  [/\barn:aws[\w-]*:\S+/gi, '[arn]'],
  [/\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g, '[address]'],
  [IPV6, '[address]'],
  [/\b(?:[\w-]+\.)+(?:internal|intranet|local|localdomain|lan|corp|svc)\b(?::\d+)?/gi, '[host]'],
  // A name with a port is an address: `redis:6379`. In prose a blank follows a colon.
  [/\b(?!\w*tokens?:)[a-z][\w-]*(?:\.[\w-]+)*:\d{4,5}\b/gi, '[host]'],
  [/\blocalhost\b(?::\d+)?/gi, '[host]'],
  [/\b(port[ :=]+)\d{2,5}\b/gi, '$1[port]'],
  [/\b(x-api-key|api-key|authorization)(\s*[=:]\s*)(?!bearer\b|basic\b)[^\s,;'"]+/gi, '$1$2[redacted]'],
  [/\b(password|passwd|secret|token|api_?key)(["']?[=:]["']?)[^\s,;'"]+/gi, '$1$2[redacted]'],
  [/\b(?=\w*\d)[\w-]{40,}\b/g, '[redacted]'],
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is replaced
  [/[\0-\x1f\x7f]+/g, ' '],
]

/**
 * Cuts out the target's credential, in every form in which it may be repeated, and each part of one that is composed
 * with colons; then host and port of its address.
 */
export const scrub = (text: string, reading: Pick<Reading, 'secret' | 'baseUrl'> | undefined): string => {
  let out = text
  const secret = reading?.secret ?? ''
  if (secret.length >= 4) {
    out = withoutSecret(out, secret)
    if (secret.includes(':')) for (const part of secret.split(':')) if (part.length >= 8) out = withoutSecret(out, part)
  }
  // Never cut within a word: half a key would not be recognised.
  if (out.length > 4 * MAX_CHARS) out = out.slice(0, 4 * MAX_CHARS).replace(/\S+$/, '')
  for (const [pattern, replacement] of PATTERNS) out = out.replace(pattern, replacement)
  if (reading?.baseUrl !== undefined) out = withoutHost(out, reading.baseUrl)
  out = out.trim()
  return out.length > MAX_CHARS ? `${out.slice(0, MAX_CHARS)}…` : out
}

/** Only failures come here, so the patterns are made on demand. */
const withoutHost = (text: string, baseUrl: string): string => {
  if (!URL.canParse(baseUrl)) return text
  const { hostname, port } = new URL(baseUrl)
  const host =
    hostname === '' ? text : text.replace(new RegExp(`(?<!\\w)${RegExp.escape(hostname)}(?!\\w)`, 'gi'), '[host]')
  // A port alone looks like any other number: 8000 tokens.
  return port === '' ? host : host.replace(new RegExp(`(\\[(?:host|address)\\]):${port}(?!\\d)`, 'g'), '$1:[port]')
}
