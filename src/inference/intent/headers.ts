// The headers that steer routing (docs/behaviour.md: "Steering headers"): each parsed once, a bad value is 400.
import type { HeaderReader } from '../../lib/http-server/http-server.ts'
import { GatewayError } from '../../wire/errors.ts'

export interface HeaderIntent {
  /** A policy by id or name. */
  readonly policy: string | null
  readonly maxCostUsd: number | null
  readonly latencyTargetMs: number | null
  readonly noFallback: boolean
  /** Slug of an endpoint scope. */
  readonly endpoint: string | null
  readonly region: string | null
  readonly sensitivity: readonly string[]
  readonly batch: boolean
  readonly noCache: boolean
  readonly debug: boolean
}

const LABELS = ['pii', 'phi', 'public']
const MAX_VALUE_LENGTH = 256

/** No header was sent. */
export const PLAIN: HeaderIntent = {
  policy: null,
  maxCostUsd: null,
  latencyTargetMs: null,
  noFallback: false,
  endpoint: null,
  region: null,
  sensitivity: [],
  batch: false,
  noCache: false,
  debug: false,
}

const bad = (header: string, expected: string): GatewayError =>
  new GatewayError('invalid_request', `the header ${header} must be ${expected}`, { param: header })

/** Reads the headers; those that were not sent are null, false or empty. */
export const readHeaderIntent = (headers: HeaderReader): HeaderIntent => {
  const policy = name(headers, 'X-Gateway-Policy')
  const maxCostUsd = amount(headers, 'X-Gateway-Max-Cost-USD')
  const latencyTargetMs = milliseconds(headers, 'X-Gateway-Latency-Target-Ms')
  const noFallback = flag(headers, 'X-Gateway-No-Fallback')
  const endpoint = name(headers, 'X-Gateway-Endpoint')
  const region = name(headers, 'X-Gateway-Region')
  const sensitivity = labels(headers, 'X-Gateway-Sensitivity')
  const batch = flag(headers, 'X-Gateway-Batch')
  const noCache = flag(headers, 'X-Gateway-No-Cache')
  const debug = flag(headers, 'X-Gateway-Debug')
  const none =
    policy === null &&
    maxCostUsd === null &&
    latencyTargetMs === null &&
    endpoint === null &&
    region === null &&
    sensitivity.length === 0 &&
    !(noFallback || batch || noCache || debug)
  return none
    ? PLAIN
    : { policy, maxCostUsd, latencyTargetMs, noFallback, endpoint, region, sensitivity, batch, noCache, debug }
}

/** Whether the debug block is requested, by a request that may be invalid for any other reason. */
export const wantsDebug = (headers: HeaderReader): boolean => headers.get('X-Gateway-Debug')?.trim() === 'true'

const flag = (headers: HeaderReader, header: string): boolean => {
  const value = headers.get(header)
  if (value === null) return false
  const text = value.trim()
  if (text !== 'true' && text !== 'false') throw bad(header, '`true` or `false`')
  return text === 'true'
}

const name = (headers: HeaderReader, header: string): string | null => {
  const value = headers.get(header)
  if (value === null) return null
  const text = value.trim()
  if (text === '' || text.length > MAX_VALUE_LENGTH) throw bad(header, `a name of 1 to ${MAX_VALUE_LENGTH} characters`)
  return text
}

const amount = (headers: HeaderReader, header: string): number | null => {
  const value = headers.get(header)
  if (value === null) return null
  const usd = /^\s*\d+(\.\d+)?([eE][+-]?\d+)?\s*$/.test(value) ? Number(value) : Number.NaN
  if (!Number.isFinite(usd)) throw bad(header, 'an amount of USD such as 0.05')
  return usd
}

const milliseconds = (headers: HeaderReader, header: string): number | null => {
  const value = headers.get(header)
  if (value === null) return null
  const ms = /^\s*\d{1,9}\s*$/.test(value) ? Number(value) : 0
  if (ms === 0) throw bad(header, 'a positive whole number of milliseconds')
  return ms
}

const labels = (headers: HeaderReader, header: string): readonly string[] => {
  const value = headers.get(header)
  if (value === null) return PLAIN.sensitivity
  const found = new Set<string>()
  for (const part of value.split(',')) {
    const label = part.trim().toLowerCase()
    if (!LABELS.includes(label)) throw bad(header, `a comma-separated list of ${LABELS.join(', ')}`)
    found.add(label)
  }
  return [...found]
}
