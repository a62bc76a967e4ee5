// What an upstream says, made fit to be quoted to a client: no secrets, no addresses, one line, short.

const MAX_CHARS = 500

const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [/\b(?:bearer|basic)\s+[\w.~+/=*-]+/gi, '[redacted]'],
  [/\b(?:sk|pk|rk|gsk|xai|hf|gw|r8|nvapi|pplx|csk|tgp|key|api)[-_][\w.*-]{6,}/gi, '[redacted]'],
  [/\b(?:AIza|AKIA|ASIA|eyJ)[\w.-]{12,}/g, '[redacted]'],
  [/\b[a-z][a-z\d+.-]*:\/\/\S+/gi, '[url]'],
  [/\barn:aws[\w-]*:\S+/gi, '[arn]'],
  [/\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g, '[address]'],
  [/\b(?=\w*\d)[\w-]{40,}\b/g, '[redacted]'],
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is replaced
  [/[\0-\x1f\x7f]+/g, ' '],
]

/** `secret` is the target's credential: whatever it looks like, it is cut out, and so is each part of one that is put together with colons. */
export const scrub = (text: string, secret: string | null): string => {
  let out = text.slice(0, 4 * MAX_CHARS)
  if (secret !== null && secret.length >= 4) {
    out = text.replaceAll(secret, '[redacted]')
    if (secret.includes(':'))
      for (const part of secret.split(':')) if (part.length >= 8) out = out.replaceAll(part, '[redacted]')
    out = out.slice(0, 4 * MAX_CHARS)
  }
  for (const [pattern, replacement] of PATTERNS) out = out.replace(pattern, replacement)
  out = out.trim()
  return out.length > MAX_CHARS ? `${out.slice(0, MAX_CHARS)}…` : out
}
