// Values of headers as texts. Requests come in runs of the same clients, who send the same ones each time: a text that is there already costs no memory, and a
// map knows its hash: 0.5 us of a request, together with keys that are found by the whole value.

const MOST_CHARS = 256
const MOST_NAMES = 64
/** The last value of each name that is asked for. */
let lastValues = new Map<string, string>()

/** The bytes of a header of that name as text, one character each. */
export const headerValue = (bytes: Buffer, from: number, to: number, name: string): string => {
  const last = lastValues.get(name)
  if (last !== undefined && isSame(bytes, from, to, last)) return last
  const value = bytes.toString('latin1', from, to)
  if (value.length > MOST_CHARS) return value
  if (lastValues.size >= MOST_NAMES) lastValues = new Map()
  lastValues.set(name, value)
  return value
}

/** Looks at all of them whatever the first ones are: where they differ from what another client sent cannot be told from how long it takes. */
const isSame = (bytes: Buffer, from: number, to: number, text: string): boolean => {
  if (to - from !== text.length) return false
  let different = 0
  for (let i = 0; i < text.length; i++) different |= bytes[from + i]! ^ text.charCodeAt(i)
  return different === 0
}
