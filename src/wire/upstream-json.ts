// The bounds of JSON that a provider sends, checked before anything parses it.
import { type JsonBounds, jsonExcess } from '../lib/json/json-bounds.ts'
import { GatewayError } from './errors.ts'

/**
 * Answers nest some ten levels, the arguments of tools and schemas in them some more. Their size is bounded where they
 * are read.
 */
const UPSTREAM_BOUNDS: JsonBounds = { depth: 128, values: 1_000_000, names: 20_000 }
/** Shorter texts are not checked: nothing in them is deep enough to cost time. Most events of a stream are shorter. */
const SHORT_CHARS = 512

const EXCESSES: Readonly<Record<keyof JsonBounds, string>> = {
  depth: 'JSON that is nested too deeply',
  values: 'JSON with too many values',
  names: 'JSON with too many different names',
}

/** Why the text must not be parsed, or null. */
export const upstreamExcess = (text: string): string | null => {
  if (text.length <= SHORT_CHARS) return null
  const excess = jsonExcess(text, UPSTREAM_BOUNDS)
  return excess === null ? null : EXCESSES[excess.of]
}

/** Throws `upstream_error` for a body or an event that exceeds a bound. */
export const requireBounded = (text: string): void => {
  const excess = upstreamExcess(text)
  if (excess !== null) throw new GatewayError('upstream_error', `the provider sent ${excess}`)
}
