// The document: OpenAPI 3.1, made from the route tables and from the schemas of the code.
import { FeedbackBody, FeedbackView } from '../../inference/surface/feedback.ts'
import { ChatCompletion, ErrorEnvelope } from '../../wire/answer-schemas.ts'
import { ChatRequest } from '../../wire/chat-request.ts'
import { ModelList, ModelObject } from '../../wire/models.ts'
import type { AdminRoute } from '../admin/route.ts'
import type { AuthRoute } from '../console-auth.ts'
import { SHARED_PARAMETERS } from './admin-parameters.ts'
import { adminPaths } from './admin-paths.ts'
import { consolePaths } from './console-paths.ts'
import { inferencePaths } from './inference-paths.ts'
import { OPERATIONS_ANSWERS } from './operations-answers.ts'
import { operationsPaths } from './operations-paths.ts'
import { FAILURES, type Node } from './parts.ts'

export interface DocumentOptions {
  readonly name: string
  readonly version: string
  /** Lower case: the header of keys. */
  readonly authHeader: string
  readonly metrics: boolean
  /** Null where `admin.enabled` is false. */
  readonly admin: { readonly table: readonly AdminRoute[]; readonly auth: readonly AuthRoute[] } | null
}

export interface OpenApiDocument {
  readonly openapi: string
  readonly info: { readonly title: string; readonly version: string; readonly description: string }
  readonly security: readonly Node[]
  readonly tags: readonly { readonly name: string }[]
  /** Path -> method (lower case) -> operation. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, Node>>>>
  readonly components: Readonly<
    Record<'securitySchemes' | 'schemas' | 'parameters' | 'responses', Readonly<Record<string, Node>>>
  >
}

const ABOUT =
  'An OpenAI SDK works with it after its base URL is set to `/v1` here. Every failure, on any path, is an ' +
  'ErrorEnvelope. ' +
  'Every write below `/admin/v1` is a decision of the log and answers its id; a caller that goes on to another ' +
  'instance sends it as `X-Gateway-Min-Revision`.'

const administration = ({ table, auth }: NonNullable<DocumentOptions['admin']>) => {
  const { paths, schemas } = adminPaths(table)
  const session = {
    type: 'apiKey',
    in: 'cookie',
    name: 'gateway_session',
    description:
      'An operator of the console, with the powers of `*`. A key beats it; writes must come from the same origin.',
  }
  return { paths: { ...consolePaths(auth), ...paths }, schemas, schemes: { session }, shared: true }
}
const NOTHING = { paths: {}, schemas: {}, schemes: {}, shared: false }

/** The tags in the order of the paths. */
const tagsOf = (paths: OpenApiDocument['paths']): { readonly name: string }[] => {
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods))
  return [...new Set(operations.flatMap(({ tags }) => tags as string[]))].map((name) => ({ name }))
}

/** Built once: it does not change while the gateway runs. */
export const openApiDocument = (options: DocumentOptions): OpenApiDocument => {
  const { name, version, authHeader, metrics } = options
  const admin = options.admin === null ? NOTHING : administration(options.admin)
  const key =
    authHeader === 'authorization'
      ? { type: 'http', scheme: 'bearer' }
      : { type: 'apiKey', in: 'header', name: authHeader }
  const paths = { ...inferencePaths, ...operationsPaths(metrics), ...admin.paths } as OpenApiDocument['paths']
  return {
    openapi: '3.1.0',
    info: { title: name, version, description: ABOUT },
    security: [{ key: [] }],
    tags: tagsOf(paths),
    paths,
    components: {
      securitySchemes: { key, ...admin.schemes },
      schemas: {
        ...{ ChatRequest, ChatCompletion, ErrorEnvelope, ModelList, ModelObject, FeedbackBody, FeedbackView },
        ...OPERATIONS_ANSWERS,
        ...(admin.schemas as Record<string, Node>),
      },
      parameters: admin.shared ? SHARED_PARAMETERS : {},
      responses: admin.shared ? FAILURES : {},
    },
  }
}
