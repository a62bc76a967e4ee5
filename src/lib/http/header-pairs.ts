// Headers as OpenTelemetry writes them: `name=value,name=value`, values percent-encoded.

/** Each pair; null for a malformed one, or one whose value no header can carry. Empty ones are left out. */
export const headerPairs = (text: string): readonly (readonly [name: string, value: string] | null)[] =>
  text.split(',').flatMap((pair) => (pair.trim() === '' ? [] : [headerPair(pair)]))

const headerPair = (pair: string): readonly [string, string] | null => {
  const [, name, written] = /^\s*([A-Za-z0-9_-]+)\s*=\s*(.*?)\s*$/.exec(pair) ?? []
  if (name === undefined) return null
  const value = decoded(written!)
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(value) ? [name.toLowerCase(), value] : null
}

const decoded = (value: string): string => {
  try {
    return decodeURIComponent(value)
  } catch {
    // Not encoded.
    return value
  }
}
