// Strings as JSON text, for text that is put together by hand where the runtime's own writing costs several times as much (docs/profile.md).

/** Ids and most names: nothing in them needs to be escaped. */
const PLAIN = /^[\w.:/@ +-]*$/

export const jsonText = (value: string | null): string => {
  if (value === null) return 'null'
  return PLAIN.test(value) ? `"${value}"` : JSON.stringify(value)
}
