// Tools, tool choice and JSON output of the client's wire -> Gemini's.
import { isLongNumber } from '../../lib/json/exact-json.ts'
import { isObject } from '../../wire/json.ts'
import { present, refuse } from '../shared/converting.ts'
import { arrayOf, type Json, objectOf, textOf } from '../shared/read-json.ts'

/** Tools that Google runs itself, by the name that a client gives as `type`. */
const OWN_TOOLS: Readonly<Record<string, string>> = {
  google_search: 'googleSearch',
  url_context: 'urlContext',
  google_maps: 'googleMaps',
  code_execution: 'codeExecution',
}

/** Keywords without effect on an object without properties. */
const WITHOUT_EFFECT = new Set(['type', 'properties', 'required', '$schema', 'title', 'description'])

/** The form of a declaration without parameters: some models refuse an object schema without properties. */
const takesNothing = (schema: Json): boolean =>
  Object.keys(objectOf(schema.properties)).length === 0 &&
  Object.entries(schema).every(
    ([key, value]) => WITHOUT_EFFECT.has(key) || (key === 'additionalProperties' && value === false),
  )

const declarationOf = ({ name, description, parameters }: Json): Json => ({
  name,
  ...(typeof description === 'string' ? { description } : {}),
  ...(isObject(parameters) && !takesNothing(parameters) ? { parametersJsonSchema: parameters } : {}),
})

interface Choice {
  readonly mode: string
  readonly allowedFunctionNames?: readonly string[]
}

/** `strict` has no counterpart in a declaration: a mode holds all calls to their schemas. */
const choiceOf = (choice: unknown, strict: boolean): Choice | null => {
  const auto = strict ? 'VALIDATED' : 'AUTO'
  if (!present(choice)) return strict ? { mode: auto } : null
  if (choice === 'auto') return { mode: auto }
  if (choice === 'none') return { mode: 'NONE' }
  if (choice === 'required') return { mode: 'ANY' }
  const { type, function: named, allowed_tools } = objectOf(choice)
  const name = textOf(objectOf(named).name)
  if (type === 'function' && name !== null) return { mode: 'ANY', allowedFunctionNames: [name] }
  const { mode, tools } = objectOf(allowed_tools)
  if (type === 'allowed_tools' && Array.isArray(tools)) {
    const names = tools.flatMap((tool) => textOf(objectOf(objectOf(tool).function).name) ?? [])
    // A list of names is valid with these two modes only.
    if (names.length > 0) return { mode: mode === 'required' ? 'ANY' : 'VALIDATED', allowedFunctionNames: names }
  }
  throw refuse('this provider has no counterpart for this tool_choice', 'tool_choice')
}

/** `tools` and `toolConfig`; nothing when the client declares no tools. */
export const convertTools = (body: Json, ownConfig: Json): Json => {
  if (present(body.functions) || present(body.function_call))
    throw refuse('functions are not supported by this provider; use tools', 'functions')
  const declarations: Json[] = []
  const tools: Json[] = []
  let strict = false
  arrayOf(body.tools).forEach((tool, i) => {
    const { type, function: declared } = objectOf(tool)
    if (typeof type === 'string' && Object.hasOwn(OWN_TOOLS, type)) {
      tools.push({ [OWN_TOOLS[type]!]: objectOf(objectOf(tool)[type]) })
      return
    }
    if (type !== 'function' || !isObject(declared))
      throw refuse(
        `this provider takes function tools and ${Object.keys(OWN_TOOLS).join(', ')} only`,
        `tools[${i}].type`,
      )
    declarations.push(declarationOf(declared))
    if (declared.strict === true) strict = true
  })
  if (declarations.length > 0) tools.unshift({ functionDeclarations: declarations })
  const choice = declarations.length === 0 ? null : choiceOf(body.tool_choice, strict)
  return {
    ...(tools.length === 0 ? {} : { tools }),
    ...(choice === null
      ? Object.keys(ownConfig).length > 0
        ? { toolConfig: ownConfig }
        : {}
      : { toolConfig: { ...ownConfig, functionCallingConfig: choice } }),
  }
}

const MAPS = new Set(['properties', '$defs', 'definitions'])
const LISTS = new Set(['anyOf', 'allOf', 'oneOf', 'prefixItems'])
const SINGLE = new Set(['items', 'not', 'additionalProperties'])
// A client's body is at most 64 levels deep; this only guards other callers.
const MOST_DEPTH = 128

/** An `enum` takes strings and numbers alone; for other values only the type can be expressed. */
const onlyValue = (value: unknown): Json => {
  if (typeof value === 'string' || typeof value === 'number' || isLongNumber(value)) return { enum: [value] }
  if (typeof value === 'boolean') return { type: 'boolean' }
  return value === null ? { type: 'null' } : {}
}

/**
 * A copy with `const` as an `enum` of one, the only form that Gemini's JSON output supports. The gateway checks the
 * answer against the client's own schema.
 */
const withoutConst = (schema: unknown, shaping: Set<string>, depth = 0): unknown => {
  if (!isObject(schema) || depth > MOST_DEPTH) return schema
  const out: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(schema)) {
    if (key === 'const') {
      shaping.add('renamed const of the JSON schema to enum')
      Object.assign(out, onlyValue(value))
    } else if (MAPS.has(key) && isObject(value))
      out[key] = Object.fromEntries(
        Object.entries(value).map(([name, one]) => [name, withoutConst(one, shaping, depth + 1)]),
      )
    else if (LISTS.has(key) && Array.isArray(value))
      out[key] = value.map((one) => withoutConst(one, shaping, depth + 1))
    else out[key] = SINGLE.has(key) ? withoutConst(value, shaping, depth + 1) : value
  }
  return out
}

/** Members of `generationConfig` for `response_format`. */
export const convertFormat = (format: unknown, shaping: Set<string>): Json => {
  const { type, json_schema } = objectOf(format)
  if (type === 'json_object') return { responseMimeType: 'application/json' }
  if (type === 'json_schema') {
    const { schema } = objectOf(json_schema)
    return {
      responseMimeType: 'application/json',
      ...(isObject(schema) ? { responseJsonSchema: withoutConst(schema, shaping) } : {}),
    }
  }
  if (typeof type === 'string' && type !== 'text')
    shaping.add('dropped response_format: this provider has no format of this type')
  return {}
}
