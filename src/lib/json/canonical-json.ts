// JSON values as text that is equal exactly when they are: members sorted, numbers as JavaScript writes them.

const MOST_DEPTH = 1_000

/** `spend` is told of the work before it is done, and throws where there is too much of it. Throws RangeError for what is nested too deeply. */
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
  for (const key of keys.sort())
    text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${canonicalJson((value as Record<string, unknown>)[key], spend, depth + 1)}`
  return `{${text}}`
}

const noBound = (): void => {
  // Whoever gives no bound has one already.
}
