// A client whose base URL ends in a slash sends `/v1//chat/completions`: one slash is meant. A caller without a key
// learns nothing of paths, so its key is checked first.
import { type AuthenticateDeps, authenticate } from '../entry/authenticate.ts'
import type { Inbound } from '../lib/http-server/http-server.ts'
import { samePeer } from './clients.ts'
import { contextOf, pathOf, sameContext } from './request-context.ts'

const REPEATED = /\/{2,}/g

/** The path with one slash in place of several, where it is one of the inference surface; else null. */
const meantPath = (path: string): string | null => {
  if (!path.includes('//')) return null
  const meant = path.replace(REPEATED, '/')
  return meant.startsWith('/v1/') ? meant : null
}

/** The request that is meant; the request itself where its path has no repeated slash. Throws 401. */
export const withSingleSlashes = (request: Request, deps: AuthenticateDeps): Request => {
  const path = pathOf(request)
  const meant = meantPath(path)
  if (meant === null) return request
  authenticate(request.headers, deps, contextOf(request).atMs)
  const at = request.url.indexOf(path, request.url.indexOf('://') + 3)
  const made = new Request(request.url.slice(0, at) + meant + request.url.slice(at + path.length), request)
  samePeer(request, made)
  sameContext(request, made)
  const { suspendDeadlines, resumeDeadlines }: Inbound = request
  return Object.assign(made, { suspendDeadlines, resumeDeadlines })
}
