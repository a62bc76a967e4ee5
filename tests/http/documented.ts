// The document of the whole surface as clients read it, and what is mounted: what tests of `/openapi.json` look at.
import { adminRoutes } from '../../src/http/admin/runner.ts'
import { authTable, consoleAuthRoutes } from '../../src/http/console-auth.ts'
import { openApiDocument } from '../../src/http/docs/document.ts'
import { docsRoutes } from '../../src/http/docs/routes.ts'
import { schemaRoutes } from '../../src/http/docs/schema-routes.ts'
import { hotRoutes, inferenceRoutes } from '../../src/http/inference.ts'
import { operationsRoutes } from '../../src/http/operations.ts'
import { furnish } from './admin/world/furnished.ts'

const nothing = {} as never
const { gateway, table: rows } = await furnish()
const consoleDeps = { ...gateway.deps, ...gateway.door.deps }
export const table = rows
export const auth = authTable(consoleDeps, () => {})

/** As `app.ts` mounts them. */
export const mounted = [
  adminRoutes(gateway.deps),
  consoleAuthRoutes(consoleDeps, () => {}),
  operationsRoutes({ prometheusEnabled: true, readiness: [] } as never, nothing, nothing),
  inferenceRoutes(hotRoutes(nothing), nothing),
  docsRoutes(nothing),
  schemaRoutes(),
].flatMap(({ routes }) => routes as readonly { readonly method: string; readonly path: string }[])

export const options = {
  ...{ name: 'gatelog', version: '1', authHeader: 'authorization', metrics: true },
  admin: { table, auth },
}
/** Without what only TypeBox sees. */
export const document = JSON.parse(JSON.stringify(openApiDocument(options))) as ReturnType<typeof openApiDocument>

export interface Parameter {
  readonly $ref?: string
  readonly in?: string
  readonly name?: string
  readonly description?: string
  readonly schema?: object
}

export interface Operation {
  readonly operationId: string
  readonly summary?: string
  readonly description?: string
  readonly security?: readonly object[]
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly content: Record<string, { readonly example?: unknown; readonly schema: object }> }
  readonly responses: Readonly<Record<string, unknown>>
  readonly 'x-scopes'?: readonly string[]
}

export const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    name: `${method.toUpperCase()} ${path}`,
    path,
    operation: operation as unknown as Operation,
  })),
)
export const names: readonly string[] = operations.map(({ name }) => name)
export const operationOf = (name: string): Operation => operations.find((each) => each.name === name)!.operation
/** `/keys/:id` as the document writes it. */
export const template = (path: string): string => path.replaceAll(/:(\w+)/g, '{$1}')

/** The component that is referred to, or the node itself. */
export const resolved = <Node extends object>(node: Node): Node => {
  const { $ref } = node as { readonly $ref?: string }
  if ($ref === undefined) return node
  const [, , kind, name] = $ref.split('/') as [string, string, keyof typeof document.components, string]
  return document.components[kind][name] as unknown as Node
}
