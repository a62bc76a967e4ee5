// Requests that no route matches: 405 with `Allow` when the path exists under another method, else 404.
import { GatewayError } from '../wire/errors.ts'

/** Built once from the routes of the app. Returns the error for a request that matched none of them. */
export const unknownRoute = (routes: readonly { readonly method: string; readonly path: string }[]) => {
  const patterns = routes
    .filter(({ method }) => method !== 'ALL')
    .map(({ method, path }) => ({ method, parts: path.split('/') }))
  return (method: string, path: string): GatewayError => {
    const parts = path.length > 1 && path.endsWith('/') ? path.slice(0, -1).split('/') : path.split('/')
    const allowed = new Set<string>()
    for (const pattern of patterns) if (fits(pattern.parts, parts)) allowed.add(pattern.method)
    if (allowed.size === 0 || allowed.has(method))
      return new GatewayError('not_found', `there is nothing at ${path.slice(0, 256)}`)
    if (allowed.has('GET')) allowed.add('HEAD')
    const allow = [...allowed].sort().join(', ')
    return new GatewayError('invalid_request', `${method} is not possible here; possible: ${allow}`, {
      status: 405,
      headers: { allow },
    })
  }
}

const fits = (pattern: readonly string[], parts: readonly string[]): boolean => {
  for (let i = 0; i < pattern.length; i++) {
    const wanted = pattern[i]!
    if (wanted === '*') return parts.length > i && parts[i] !== ''
    const part = parts[i]
    if (part === undefined || (wanted.startsWith(':') ? part === '' : part !== wanted)) return false
  }
  return pattern.length === parts.length
}
