// `GET /openapi.json` and `GET /docs`: public, built on first use.
import { Elysia } from 'elysia'
import { identityHeaders } from '../envelope.ts'
import { contextOf } from '../request-context.ts'
import { type DocumentOptions, type OpenApiDocument, openApiDocument } from './document.ts'
import { docsPage, PAGE_HEADERS } from './page.ts'

/** Mounted where `server.docs` is on. `options` is called once, at the first request. */
export const docsRoutes = (options: () => DocumentOptions) => {
  let made: OpenApiDocument | null = null
  let json: string | null = null
  let page: string | null = null
  const document = (): OpenApiDocument => {
    made ??= openApiDocument(options())
    return made
  }
  return new Elysia({ name: 'docs' })
    .get('/openapi.json', ({ request }) => {
      json ??= JSON.stringify(document())
      const headers = { 'content-type': 'application/json', ...identityHeaders(contextOf(request)) }
      return new Response(json, { headers })
    })
    .get('/docs', ({ request }) => {
      page ??= docsPage(document())
      return new Response(page, { headers: { ...PAGE_HEADERS, ...identityHeaders(contextOf(request)) } })
    })
}
