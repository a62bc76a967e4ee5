// A JSON Schema in short text, for people: `{ "name": text 1..64, "status"?: "active" | "disabled" }`.

type Schema = Readonly<Record<string, unknown>>

/** Below this depth only the type is shown. */
const DEPTH = 5

const bounds = (least: unknown, most: unknown): string =>
  least === undefined && most === undefined ? '' : ` ${String(least ?? '')}..${String(most ?? '')}`

const remark = ({ description }: Schema): string =>
  typeof description === 'string' ? ` // ${description.replaceAll('\n', ' ')}` : ''

const objectText = (schema: Schema, indent: string, depth: number): string => {
  const properties = Object.entries((schema.properties ?? {}) as Record<string, Schema>)
  const required = (schema.required ?? []) as readonly string[]
  const written = properties.filter(([, member]) => member.readOnly !== true)
  if (written.length === 0) return 'object'
  if (depth === 0) return 'object'
  const inner = `${indent}  `
  const lines = written.map(([name, member]) => {
    const mark = required.includes(name) ? '' : '?'
    return `${inner}"${name}"${mark}: ${textOf(member, inner, depth - 1)}${remark(member)}`
  })
  return `{\n${lines.join('\n')}\n${indent}}`
}

const choiceText = (members: readonly Schema[], indent: string, depth: number): string =>
  [...new Set(members.map((member) => textOf(member, indent, depth)))].join(' | ')

const textOf = (schema: Schema, indent: string, depth: number): string => {
  if (typeof schema.$ref === 'string') return schema.$ref.split('/').at(-1)!
  if ('const' in schema) return JSON.stringify(schema.const)
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => JSON.stringify(value)).join(' | ')
  const members = schema.anyOf ?? schema.oneOf ?? schema.allOf
  if (Array.isArray(members)) return choiceText(members as Schema[], indent, depth)
  if (schema.type === 'string') return `text${bounds(schema.minLength, schema.maxLength)}`
  if (schema.type === 'integer' || schema.type === 'number')
    return `${schema.type}${bounds(schema.minimum ?? schema.exclusiveMinimum, schema.maximum)}`
  if (schema.type === 'array') return `[${textOf((schema.items ?? {}) as Schema, indent, depth)}]`
  if (schema.type === 'object') return objectText(schema, indent, depth)
  return typeof schema.type === 'string' ? schema.type : 'anything'
}

/** Over several lines where there are members; a component by its name alone. */
export const schemaText = (schema: unknown): string => textOf((schema ?? {}) as Schema, '', DEPTH)
