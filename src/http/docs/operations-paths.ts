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

const SCHEMA_NAME: Node = {
  name: 'name',
  in: 'path',
  required: true,
  description: 'Type of an event with `.json` behind it, `envelope.json` or `decision.json`.',
  schema: { type: 'string' },
}

/** The JSON Schemas of the topics: for consumers, who may keep them for a day. */
const schemas: Node = {
  '/schemas': operation('schemas', 'The events of the topics, and where their JSON Schemas stand'),
  '/schemas/{name}': {
    get: {
      ...(operation(
        'schema',
        'The JSON Schema of an event, as `dataschema` of its envelope names it',
        failures(['not_found']),
        {
          'application/schema+json': { schema: open },
        },
      ).get as Node),
      parameters: [SCHEMA_NAME],
    },
  },
}

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
  ...schemas,
  ...(metrics ? { '/metrics': operation('metrics', 'Metrics for Prometheus', {}, { 'text/plain': text }) } : {}),
})
