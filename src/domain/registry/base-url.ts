// Rules of a provider's base URL: it is the part before the operation, and holds nothing that must not be in the
// address of every request.
import { urlRefusal } from '../../lib/http-client/http-client.ts'

/** Operations that users often paste with the address: the gateway appends them itself. */
const OPERATIONS: readonly RegExp[] = [
  /\/chat\/completions$/i,
  /\/(?:completions|messages|responses|embeddings)$/i,
  /(?<=\/v\d)\/chat$/i,
  /\/api\/(?:chat|generate)$/i,
  /\/models\/[^/]+:\w*generateContent$/i,
  /\/model\/[^/]+\/(?:converse|invoke)[\w-]*$/i,
]

/**
 * Why this cannot be a base URL, with what to write instead; null: it can. Private addresses are checked where the
 * setting is available.
 */
export const baseUrlError = (text: string): string | null => {
  const url = URL.parse(text)
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    return 'base_url must be an http or https URL'
  const right = rightUrl(text)
  const instead = `; write "${right}"`
  if (url.username !== '' || url.password !== '')
    return `base_url must not hold a user or a password: a secret is a credential${instead}`
  if (text.includes('#')) return `base_url must not hold a fragment (#)${instead}`
  if (text.includes('?')) {
    const version = url.searchParams.get('api-version')
    const option = version === null ? '' : ` and options {"api_version": ${JSON.stringify(version)}}`
    return `base_url must not hold a query string (a secret is a credential)${instead}${option}`
  }
  if (right !== withoutSlashes(text)) return `base_url is what stands before the operation${instead}`
  const refusal = urlRefusal(url, true)
  return refusal === null ? null : `base_url cannot be used: ${refusal}`
}

/** The URL without user, query, fragment and operation. */
const rightUrl = (text: string): string => {
  const bare = withoutSlashes(text.replace(/[?#].*$/s, '').replace(/^(https?:\/\/)[^/]*@/i, '$1'))
  const operation = OPERATIONS.find((form) => form.test(bare))
  return operation === undefined ? bare : withoutSlashes(bare.replace(operation, ''))
}

const withoutSlashes = (text: string): string => text.trim().replace(/\/+$/, '')
