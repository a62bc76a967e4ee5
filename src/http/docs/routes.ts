// `GET /openapi.json`: public, and made when it is first asked for.
import { Elysia } from 'elysia'
import { identityHeaders } from '../envelope.ts'
import { contextOf } from '../request-context.ts'
import { type DocumentOptions, openApiDocument } from './document.ts'

/** Mounted where `server.docs` is on. `options`: asked once, at the first request. */
export const docsRoutes = (options: () => DocumentOptions) => {
  let json: string | null = null
  return new Elysia({ name: 'docs' }).get('/openapi.json', ({ request }) => {
    json ??= JSON.stringify(openApiDocument(options()))
    const headers = { 'content-type': 'application/json', ...identityHeaders(contextOf(request)) }
    return new Response(json, { headers })
  })
}
