// The operations surface in the document.
import { failures, IDENTITY, json, type Node, open, required, text } from './parts.ts'

const operation = (operationId: string, summary: string, more: Node = {}, content: Node = json(open)): Node => ({
  get: {
    operationId,
    tags: ['operations'],
    summary,
    security: [],
    responses: {
      200: { description: summary, headers: required(IDENTITY), content },
      ...more,
      ...failures(['internal_error'], [405]),
    },
  },
})

const ready = (operationId: string): Node =>
  operation(operationId, 'Whether requests can be served', {
    503: { description: 'Not ready: the same body, with `error` and `gateway` besides.', content: json(open) },
  })

/** Without `/metrics` where metrics are off. */
export const operationsPaths = (metrics: boolean): Node => ({
  '/': operation('root', 'What this is', {}, { ...json(open), 'text/html': { schema: { type: 'string' } } }),
  '/health': operation('health', 'Whether the process is alive'),
  '/healthz': operation('healthz', 'The same as /health'),
  '/ready': ready('ready'),
  '/readiness': ready('readiness'),
  '/version': operation('version', 'Build, uptime, units of work'),
  '/openapi.json': operation('openapi', 'This document'),
  '/docs': operation('docs', 'This document as a page', {}, { 'text/html': text }),
  ...(metrics ? { '/metrics': operation('metrics', 'Metrics for Prometheus', {}, { 'text/plain': text }) } : {}),
})
