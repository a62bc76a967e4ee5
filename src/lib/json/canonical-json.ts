// JSON values as texts that are equal exactly when the values are: members sorted, numbers as JavaScript writes them.

const MOST_DEPTH = 1_000

/**
 * `spend` is called with the cost of each step before it is done, and throws when the budget is used up. Throws
 * RangeError for a value that is nested too deeply.
 */
export const canonicalJson = (value: unknown, spend: (steps: number) => void = noBound, depth = 0): string => {
  if (typeof value === 'string') {
    spend(1 + (value.length >> 3))
    return JSON.stringify(value)
  }
  if (value === null || typeof value !== 'object') {
    spend(1)
    return JSON.stringify(value)
  }
  if (depth > MOST_DEPTH) throw new RangeError('nested too deeply')
  let text = ''
  if (Array.isArray(value)) {
    spend(1 + value.length)
    for (const item of value) text += `${text === '' ? '' : ','}${canonicalJson(item, spend, depth + 1)}`
    return `[${text}]`
  }
  const keys = Object.keys(value)
  spend(1 + 2 * keys.length)
  for (const key of keys.sort()) {
    const member = canonicalJson((value as Record<string, unknown>)[key], spend, depth + 1)
    text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${member}`
  }
  return `{${text}}`
}

const noBound = (): void => {
  // The caller has bounded the value.
}
