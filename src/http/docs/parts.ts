// Building blocks of operations: headers, contents, failures.
import { type TSchema, t } from '../../lib/schema/schema.ts'
import { ERRORS, type ErrorCode } from '../../wire/errors.ts'

/** A piece of the document. */
export type Node = Readonly<Record<string, unknown>>

/** A parameter that is a header. */
export const header = (name: string, schema: TSchema | Node, description: string): Node => ({
  name,
  in: 'header',
  required: false,
  description,
  schema,
})

export const REQUEST_ID = header(
  'X-Request-ID',
  t.String({ maxLength: 128, pattern: '^[A-Za-z0-9._-]*$' }),
  'Echoed; made when it is not sent.',
)

export const text = { schema: { type: 'string' } }
/** Headers of every response. */
export const IDENTITY: Node = {
  'X-Request-ID': { ...text, description: 'Names this request in the logs.' },
  'X-Trace-ID': text,
}
/** Headers of every write. */
export const WRITTEN: Node = {
  'X-Gateway-Revision': { ...text, description: 'Id of the decision; the tip of the log when nothing had to change.' },
  'X-Gateway-Applied-By': { ...text, description: 'How many of the live instances have applied it: `n/n`.' },
}
/** Headers of every failure. */
export const FAILED: Node = {
  ...IDENTITY,
  'X-Gateway-Retryable': { schema: { type: 'string', enum: ['true', 'false'] } },
  'x-should-retry': { schema: { type: 'string', enum: ['true', 'false'] } },
}
const MAYBE: Node = {
  'X-Gateway-Upstream-Status': { ...text, description: "The provider's own status, where it was translated." },
  'Retry-After': { ...text, description: 'Seconds.' },
}

export const json = (schema: unknown, example?: unknown): Node => ({
  'application/json': { schema, ...(example === undefined ? {} : { example }) },
})
/** A schema of the components. */
export const ref = (name: string): Node => ({ $ref: `#/components/schemas/${name}` })
export const ok = (description: string, schema: unknown, example?: unknown): Node => ({
  description,
  headers: IDENTITY,
  content: json(schema, example),
})

/** Status -> the codes that come with it. Some 4xx statuses carry `invalid_request` without being in the table. */
export const failures = (codes: readonly ErrorCode[], more: readonly number[] = []): Node => {
  const byStatus = new Map<number, string[]>()
  for (const code of codes) {
    const { status } = ERRORS[code]
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  for (const status of more) byStatus.set(status, ['invalid_request'])
  const optional = Object.fromEntries(
    Object.entries(MAYBE).map(([name, about]) => [name, { ...(about as Node), required: false }]),
  )
  return Object.fromEntries(
    [...byStatus].map(([status, names]) => [
      String(status),
      {
        description: names.join(', '),
        headers: { ...required(FAILED), ...optional },
        content: json(ref('ErrorEnvelope')),
      },
    ]),
  )
}
export const required = (headers: Node): Node =>
  Object.fromEntries(Object.entries(headers).map(([name, about]) => [name, { ...(about as Node), required: true }]))

/** An object with no promised fields. */
export const open: Node = { type: 'object', additionalProperties: true }

/** Status -> the error codes of the admin surface. */
const CODES: Readonly<Record<number, readonly ErrorCode[]>> = {
  400: ['invalid_request'],
  401: ['authentication_error'],
  402: ['quota_exceeded'],
  403: ['permission_error'],
  404: ['not_found'],
  405: ['invalid_request'],
  409: ['invalid_request'],
  413: ['invalid_request'],
  415: ['invalid_request'],
  429: ['rate_limited'],
  500: ['internal_error'],
  501: ['not_implemented'],
  502: ['upstream_error', 'provider_unavailable'],
  503: ['provider_unavailable'],
  504: ['timeout'],
}
const WHY: Readonly<Record<number, string>> = {
  400: 'a field, parameter or header is wrong; `error.param` names it',
  401: 'no valid credential',
  403: 'the credential lacks the scope, or the configuration is frozen',
  404: 'nothing has this id, or not for this caller',
  405: 'not this method; `Allow` names those that are possible',
  409: 'it contradicts what is there, `If-Match` does not hold, or the `Idempotency-Key` was used for something else',
  413: 'the body is too large',
  415: 'the body is not plain `application/json`',
  429: 'too many at once; `Retry-After` says when',
  503: 'this instance is still reading the log, or is stopping; `Retry-After` says when',
  504: 'not within its time. Of a write the outcome is unknown: a repeat with the same `Idempotency-Key` is safe',
}

/** Failures as components of the document. */
export const FAILURES: Readonly<Record<string, Node>> = Object.fromEntries(
  Object.entries(CODES).map(([status, codes]) => {
    const why = WHY[Number(status)]
    const headers = {
      ...required(FAILED),
      ...MAYBE,
      ...(status === '401' ? { 'WWW-Authenticate': text } : {}),
      ...(status === '405' ? { Allow: text } : {}),
    }
    const description = why === undefined ? codes.join(', ') : `${codes.join(', ')}: ${why}.`
    return [`Failure${status}`, { description, headers, content: json(ref('ErrorEnvelope')) }]
  }),
)

/** One of the failures above. */
export const failure = (status: number): Node => ({ $ref: `#/components/responses/Failure${status}` })
