// Resolves the references of a schema: the document and its parts with an `$id`, with their anchors. Nothing is ever
// fetched.
import { isRecord, SchemaError } from './site.ts'

/** A document, or a part of one with an `$id`, to which its references are relative. */
export interface Resource {
  readonly base: string
  readonly root: unknown
  readonly anchors: Map<string, unknown>
  readonly dynamicAnchors: Map<string, unknown>
}

const NOWHERE = 'https://schema.invalid/'

const ONE = [
  'additionalItems',
  'additionalProperties',
  'contains',
  'contentSchema',
  'else',
  'if',
  'items',
  'not',
  'propertyNames',
  'then',
  'unevaluatedItems',
  'unevaluatedProperties',
]
const MANY = ['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items']
const NAMED = ['$defs', 'definitions', 'dependencies', 'dependentSchemas', 'patternProperties', 'properties']

export class Resources {
  readonly #byUrl = new Map<string, Resource>()
  readonly #of = new Map<object, Resource>()
  readonly root: Resource

  constructor(
    schema: unknown,
    private readonly isDraft7: boolean,
  ) {
    this.root = this.#open(NOWHERE, schema)
    this.#index(schema, this.root)
  }

  /** The resource of a schema object. */
  of(schema: object): Resource {
    return this.#of.get(schema) ?? this.root
  }

  /** The target of a reference in this resource. Throws SchemaError. */
  find(
    reference: string,
    from: Resource,
  ): { readonly schema: unknown; readonly resource: Resource; readonly anchor: string | null } {
    const url = urlOf(reference, from.base)
    const fragment = decoded(url.hash.slice(1), reference)
    url.hash = ''
    const resource = this.#byUrl.get(url.href)
    if (resource === undefined) throw new SchemaError(`"${reference.slice(0, 128)}" leads outside the schema`)
    const { anchors, dynamicAnchors } = resource
    const isAnchor = fragment !== '' && !fragment.startsWith('/')
    const schema = isAnchor
      ? (anchors.get(fragment) ?? dynamicAnchors.get(fragment))
      : pointedAt(resource.root, fragment)
    if (schema === undefined) throw new SchemaError(`"${reference.slice(0, 128)}" leads to nothing`)
    if (isRecord(schema) && !this.#of.has(schema)) this.#index(schema, resource)
    const owner = isRecord(schema) ? this.of(schema) : resource
    return { schema, resource: owner, anchor: isAnchor ? fragment : null }
  }

  #open(base: string, root: unknown): Resource {
    const resource: Resource = { base, root, anchors: new Map(), dynamicAnchors: new Map() }
    if (!this.#byUrl.has(base)) this.#byUrl.set(base, resource)
    return resource
  }

  #index(schema: unknown, outer: Resource): void {
    if (!isRecord(schema)) return
    const resource = this.#enter(schema, outer)
    this.#of.set(schema, resource)
    for (const name of ONE) this.#index(schema[name], resource)
    for (const name of MANY) {
      const list = schema[name]
      if (Array.isArray(list)) for (const item of list) this.#index(item, resource)
    }
    for (const name of NAMED) {
      const map = schema[name]
      if (isRecord(map)) for (const item of Object.values(map)) this.#index(item, resource)
    }
  }

  /** Reads `$id` and the anchors. Draft-07 ignores both beside a `$ref`. */
  #enter(schema: Readonly<Record<string, unknown>>, outer: Resource): Resource {
    const { $id, $anchor, $dynamicAnchor } = schema
    let resource = outer
    if (typeof $id === 'string' && !(this.isDraft7 && schema.$ref !== undefined)) {
      if (this.isDraft7 && $id.startsWith('#')) resource.anchors.set($id.slice(1), schema)
      else {
        const url = urlOf($id, outer.base)
        const fragment = url.hash.slice(1)
        url.hash = ''
        resource = this.#open(url.href, schema)
        if (this.isDraft7 && fragment !== '') resource.anchors.set(fragment, schema)
      }
    }
    if (this.isDraft7) return resource
    if (typeof $anchor === 'string') resource.anchors.set($anchor, schema)
    if (typeof $dynamicAnchor === 'string') resource.dynamicAnchors.set($dynamicAnchor, schema)
    return resource
  }
}

const urlOf = (reference: string, base: string): URL => {
  try {
    return new URL(reference, base)
  } catch {
    throw new SchemaError(`"${reference.slice(0, 128)}" is no reference`)
  }
}

const decoded = (fragment: string, reference: string): string => {
  try {
    return decodeURIComponent(fragment)
  } catch {
    throw new SchemaError(`"${reference.slice(0, 128)}" is not encoded correctly`)
  }
}

/** Follows a JSON pointer; undefined when its target does not exist. */
const pointedAt = (root: unknown, pointer: string): unknown => {
  let value = root
  for (const step of pointer === '' ? [] : pointer.slice(1).split('/')) {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~')
    if (value === null || typeof value !== 'object' || !Object.hasOwn(value, key)) return undefined
    value = (value as Record<string, unknown>)[key]
  }
  return value
}
