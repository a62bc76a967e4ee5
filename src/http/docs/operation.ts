// Operations of the document as the page reads them.
import type { OpenApiDocument } from './document.ts'

export interface Content {
  readonly schema: unknown
  readonly example?: unknown
}

export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required?: boolean
  readonly description?: string
  readonly schema?: unknown
  readonly example?: unknown
}

export interface Operation {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly summary: string
  readonly description?: string
  readonly security?: readonly object[]
  readonly parameters?: readonly unknown[]
  readonly requestBody?: {
    readonly required?: boolean
    readonly description?: string
    readonly content: Readonly<Record<string, Content>>
  }
  readonly responses: Readonly<Record<string, unknown>>
}

export interface Answer {
  readonly description: string
  readonly headers?: object
  readonly content?: Readonly<Record<string, Content>>
}

/** The component that `{$ref}` names, or the node itself. */
export const resolved = (node: unknown, { components }: OpenApiDocument): Answer => {
  const { $ref } = node as { $ref?: string }
  if ($ref === undefined) return node as Answer
  const [, , kind, name] = $ref.split('/') as [string, string, keyof typeof components, string]
  return components[kind][name] as unknown as Answer
}
