// The operations surface in the document.
import { recordedAnswer } from './answer-examples.ts'
import { FAILED, failures, IDENTITY, json, type Node, open, ref, required, text } from './parts.ts'

interface About {
  readonly id: string
  readonly summary: string
  /** The description, after the summary. */
  readonly more: string
  readonly content: Node
  readonly failing?: Node
}

const operation = ({ id, summary, more, content, failing = {} }: About): Node => ({
  get: {
    operationId: id,
    tags: ['operations'],
    summary,
    description: `Needs no credential. ${more}`,
    security: [],
    responses: {
      200: { description: summary, headers: required(IDENTITY), content },
      ...failing,
      ...failures(['internal_error'], [405]),
    },
  },
})

const NOT_READY: Node = {
  503: {
    description: 'Not ready: the same body, with `error` and `gateway` besides.',
    headers: required(FAILED),
    content: json({ allOf: [ref('Readiness'), ref('ErrorEnvelope')] }, recordedAnswer('GET', '/ready 503')),
  },
}
const LIVENESS = 'It looks at nothing that this process depends on.'
const READINESS = 'Looks at the control log, the spool, the providers, Postgres and Redis, for 2 s at most.'
const recorded = (schema: string, path: string): Node => json(ref(schema), recordedAnswer('GET', path))
const liveness = (id: string, summary: string): Node =>
  operation({ id, summary, more: LIVENESS, content: recorded('Liveness', `/${id}`) })
const readiness = (id: string, summary: string): Node =>
  operation({ id, summary, more: READINESS, content: recorded('Readiness', `/${id}`), failing: NOT_READY })

const SCHEMA_NAME: Node = {
  name: 'name',
  in: 'path',
  required: true,
  description: 'Type of an event with `.json` behind it, `envelope.json` or `decision.json`.',
  schema: { type: 'string' },
}

/** The JSON Schemas of the topics: for consumers, who may cache them for a day. */
const schemas: Node = {
  '/schemas': operation({
    ...{ id: 'schemas', summary: 'The events of the topics, and where their JSON Schemas stand' },
    ...{ more: 'May be kept for a day.', content: recorded('EventSchemas', '/schemas') },
  }),
  '/schemas/{name}': {
    get: {
      ...(operation({
        ...{ id: 'schema', summary: 'The JSON Schema of an event, as `dataschema` of its envelope names it' },
        more: 'A schema only ever gains optional fields, so an old copy stays right.',
        content: { 'application/schema+json': { schema: open } },
        failing: failures(['not_found']),
      }).get as Node),
      parameters: [SCHEMA_NAME],
    },
  },
}

const METRICS = operation({
  ...{ id: 'metrics', summary: 'Metrics for Prometheus', more: 'In the text format of its exposition.' },
  content: { 'text/plain': text },
})

/** Without `/metrics` where metrics are off. */
export const operationsPaths = (metrics: boolean): Node => ({
  '/': operation({
    ...{ id: 'root', summary: 'What this is', more: 'A page for browsers, JSON for everybody else.' },
    content: { ...recorded('Service', '/'), 'text/html': text },
  }),
  '/health': liveness('health', 'Whether the process is alive'),
  '/healthz': liveness('healthz', 'The same as /health'),
  '/ready': readiness('ready', 'Whether requests can be served'),
  '/readiness': readiness('readiness', 'The same as /ready'),
  '/version': operation({
    ...{ id: 'version', summary: 'Build, uptime, units of work', more: 'Nothing about what it is connected to.' },
    content: recorded('Version', '/version'),
  }),
  '/openapi.json': operation({
    ...{ id: 'openapi', summary: 'This document', more: 'OpenAPI 3.1, made of the schemas that the code itself has.' },
    content: json(open),
  }),
  '/docs': operation({
    ...{ id: 'docs', summary: 'This document as a page', more: 'It makes no request to another host.' },
    content: { 'text/html': text },
  }),
  ...schemas,
  ...(metrics ? { '/metrics': METRICS } : {}),
})
