// The forms in which a provider may repeat a secret: as it is, in another case, escaped, or encoded.

/** A shorter secret, or a shorter piece of an encoded form, would match harmless text. */
const LEAST_ENCODED_CHARS = 8

/** The text without the secret in any of its forms. Nothing of a secret is cached between two texts. */
export const withoutSecret = (text: string, secret: string): string => {
  // `EMPTY`, which servers without keys are given, is an ordinary word when case is ignored.
  if (secret.length < LEAST_ENCODED_CHARS) return text.replaceAll(secret, '[redacted]')
  const bytes = Buffer.from(secret)
  const encoded = [bytes.toString('hex'), ...base64Cores(bytes)].filter((form) => form.length >= LEAST_ENCODED_CHARS)
  // Most texts hold none, and a pattern is expensive: when everything fails there are many texts.
  const lower = text.toLowerCase()
  const isThere = [secret, ...encoded].some((form) => lower.includes(form.toLowerCase()))
  if (!isThere && !/[%\\]/.test(text)) return text
  const forms = [
    // Adjacent characters share bits with it.
    ...encoded.map((form) => `[\\w+/-]?${RegExp.escape(form)}[\\w+/-]?={0,2}`),
    [...secret].map(inAnyEscape).join(''),
  ]
  return text.replace(new RegExp(forms.join('|'), 'gi'), '[redacted]')
}

/**
 * The part of the base64 text that does not depend on where the secret begins in the encoded text (`Bearer <secret>`):
 * neighbours change only the characters at its ends.
 */
const base64Cores = (bytes: Buffer): string[] =>
  [0, 1, 2].flatMap((before) => {
    const all = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replace(/=+$/, '')
    const whole = Math.floor(((before + bytes.length) * 8) / 6)
    const core = all.slice(Math.ceil((before * 8) / 6), whole)
    return [core, core.replaceAll('+', '-').replaceAll('/', '_')]
  })

/**
 * The character as it is, percent-encoded, also more than once, or as JSON escapes it, also more than once (four times
 * are 15 backslashes). Bounded, because a run of backslashes of any length would be walked once from each of them.
 */
const inAnyEscape = (char: string): string => {
  const percent = [...Buffer.from(char)].map((byte) => `%(?:25){0,4}${hex(byte, 2)}`).join('')
  const units = [...char.split('')].map((unit) => `\\\\{1,15}u${hex(unit.charCodeAt(0), 4)}`).join('')
  const plain = '"\\/'.includes(char) ? `\\\\{0,15}${RegExp.escape(char)}` : RegExp.escape(char)
  return `(?:${plain}|${percent}|${units})`
}

const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, '0')
