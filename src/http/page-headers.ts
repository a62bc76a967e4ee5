// The headers of the gateway's pages. They allow no scripts, frames or requests, and one style sheet, named by its
// digest.
import { sha256 } from '../lib/crypto/digest.ts'

/** `style`: the text between `<style>` and `</style>`, to the byte. */
export const pageHeaders = (style: string): Readonly<Record<string, string>> => {
  const digest = Buffer.from(sha256(style)).toString('base64')
  return {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy':
      `default-src 'none'; style-src 'sha256-${digest}'; ` +
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
  }
}
