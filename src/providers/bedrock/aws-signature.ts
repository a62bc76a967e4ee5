// AWS Signature Version 4: the headers that authenticate a request. Pure; the time is passed in. Why no library:
// docs/decisions/0059-aws-signature-and-event-stream.md.
import { createHmac } from 'node:crypto'
import { hmacHex, sha256Hex } from '../../lib/crypto/digest.ts'

export interface AwsCredentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** Token of temporary credentials; null for permanent ones. */
  readonly sessionToken: string | null
}

export interface AwsRequest {
  readonly method: string
  /**
   * As sent, percent-encoded where necessary; the signature encodes every character once more, as all services but S3
   * require.
   */
  readonly path: string
  /** Without the question mark. */
  readonly query: string
  /** All signed headers, `host` among them; a name may be repeated. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: string | Uint8Array
}

export interface AwsScope {
  readonly region: string
  readonly service: string
  /** Unix milliseconds. AWS refuses a difference of more than five minutes. */
  readonly atMs: number
}

const ALGORITHM = 'AWS4-HMAC-SHA256'

/** Percent-encodes all but `A-Za-z0-9-._~`. */
export const awsEncode = (text: string): string =>
  encodeURIComponent(text.toWellFormed()).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )

/** `20150830T123600Z` */
const stampOf = (atMs: number): string => new Date(atMs).toISOString().replace(/[-:]|\.\d{3}/g, '')

/** Empty and dot segments resolved, each segment encoded. */
const canonicalPath = (path: string): string => {
  const segments: string[] = []
  for (const segment of path.split('/')) {
    if (segment === '..') segments.pop()
    else if (segment !== '' && segment !== '.') segments.push(awsEncode(segment))
  }
  if (segments.length === 0) return '/'
  return `/${segments.join('/')}${/\/\.{0,2}$/.test(path) ? '/' : ''}`
}

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text // a stray percent sign stands for itself
  }
}

const byCode = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

const canonicalQuery = (query: string): string =>
  query
    .split('&')
    .filter((pair) => pair !== '')
    .map((pair) => {
      const at = pair.indexOf('=')
      const [name, value] = at === -1 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 1)]
      return [awsEncode(decoded(name)), awsEncode(decoded(value))] as const
    })
    .sort((a, b) => byCode(a[0], b[0]) || byCode(a[1], b[1]))
    .map(([name, value]) => `${name}=${value}`)
    .join('&')

/** Names in lower case, sorted, the values of a repeated one joined in their order. */
const canonicalHeaders = (headers: AwsRequest['headers']): readonly (readonly [string, string])[] => {
  const values = new Map<string, string>()
  for (const [given, value] of headers) {
    const name = given.toLowerCase()
    const plain = value.trim().replace(/\s+/g, ' ')
    const before = values.get(name)
    values.set(name, before === undefined ? plain : `${before},${plain}`)
  }
  return [...values].sort((a, b) => byCode(a[0], b[0]))
}

/** The canonical request, whose digest is signed. `headers` are all signed headers, those of the signature included. */
export const awsCanonicalRequest = ({ method, path, query, headers, body }: AwsRequest): string => {
  const canonical = canonicalHeaders(headers)
  return [
    method,
    canonicalPath(path),
    canonicalQuery(query),
    ...canonical.map(([name, value]) => `${name}:${value}`),
    '',
    canonical.map(([name]) => name).join(';'),
    sha256Hex(body),
  ].join('\n')
}

const hmac = (key: string | Uint8Array, text: string): Uint8Array => createHmac('sha256', key).update(text).digest()

/**
 * The headers that are added to the request's own: `x-amz-date`, `authorization` and, with temporary credentials,
 * `x-amz-security-token`.
 */
export const signAwsRequest = (
  request: AwsRequest,
  { accessKeyId, secretAccessKey, sessionToken }: AwsCredentials,
  { region, service, atMs }: AwsScope,
): Readonly<Record<string, string>> => {
  const stamp = stampOf(atMs)
  const day = stamp.slice(0, 8)
  const added = {
    'x-amz-date': stamp,
    ...(sessionToken === null ? {} : { 'x-amz-security-token': sessionToken }),
  }
  const headers = [...request.headers, ...Object.entries(added)]
  const signed = canonicalHeaders(headers)
    .map(([name]) => name)
    .join(';')
  const scope = `${day}/${region}/${service}/aws4_request`
  const digest = sha256Hex(awsCanonicalRequest({ ...request, headers }))
  const key = hmac(hmac(hmac(hmac(`AWS4${secretAccessKey}`, day), region), service), 'aws4_request')
  const signature = hmacHex(key, `${ALGORITHM}\n${stamp}\n${scope}\n${digest}`)
  return {
    ...added,
    authorization: `${ALGORITHM} Credential=${accessKeyId}/${scope}, SignedHeaders=${signed}, Signature=${signature}`,
  }
}
