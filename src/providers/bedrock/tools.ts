// Tools and response formats of the client's wire -> `toolConfig` and `outputConfig` of Converse.
import { isObject } from '../../wire/json.ts'
import { schemaSubset, strictTools } from '../shared/claude-schema.ts'
import { JSON_TOOL, present, refuse, toolSchema } from '../shared/converting.ts'
import { arrayOf, type Json, objectOf, textOf } from '../shared/read-json.ts'
import { type Block, cachePoint } from './messages.ts'
import { refusesForcedTools, takesSchemas } from './models.ts'
import type { Draft } from './request.ts'

const NO_PARAMETERS: Json = { type: 'object', properties: {} }

const toolSpec = (name: unknown, description: string | null, schema: Json, strict = false): Block => ({
  toolSpec: {
    name,
    ...(description === null || description.trim() === '' ? {} : { description }),
    inputSchema: { json: schema },
    ...(strict ? { strict } : {}),
  },
})

/** The tools that the client declares; strict ones with the schema that the model takes for them. */
const declared = ({ body, target, note }: Draft): Block[] => {
  const tools = arrayOf(body.tools).map((tool, i): Json => {
    if (!isObject(tool) || tool.type !== 'function' || !isObject(tool.function))
      throw refuse('this provider takes function tools only', `tools[${i}].type`)
    const { parameters, cache_control } = tool.function
    return {
      ...tool.function,
      parameters: toolSchema(parameters, note),
      cache_control: tool.cache_control ?? cache_control,
    }
  })
  return strictTools(tools, 'parameters', takesSchemas(target), note).flatMap((tool): Block[] => [
    toolSpec(tool.name, textOf(tool.description), objectOf(tool.parameters), tool.strict === true),
    ...cachePoint(tool),
  ])
}

type Choice = { readonly type: 'auto' | 'any' | 'none' } | { readonly type: 'tool'; readonly name: string }

const choiceOf = (choice: unknown): Choice | null => {
  if (!present(choice)) return null
  if (choice === 'auto' || choice === 'none') return { type: choice }
  if (choice === 'required') return { type: 'any' }
  const { type, function: named } = objectOf(choice)
  const { name } = objectOf(named)
  if (type === 'function' && typeof name === 'string') return { type: 'tool', name }
  throw refuse('this provider has no counterpart for this tool_choice', 'tool_choice')
}

const converseChoice = (choice: Choice): Json =>
  choice.type === 'tool' ? { tool: { name: choice.name } } : { [choice.type]: {} }

/**
 * Adds `toolConfig`. What it cannot express goes to Claude in Claude's own fields; a request must not hold both forms.
 */
export const addTools = (draft: Draft): void => {
  const { body, family, shaping, conversation } = draft
  const choice = choiceOf(body.tool_choice)
  const tools = declared(draft)
  const called = [...conversation.calledTools]
  let never = choice?.type === 'none'
  if (tools.length === 0) {
    if (called.length === 0) return
    tools.push(...called.map((name) => toolSpec(name, null, NO_PARAMETERS)))
    shaping.push('declared the tools of earlier messages: their calls are refused otherwise')
    never = true
  } else if (never && called.length === 0) {
    shaping.push('dropped tools: tool_choice none')
    return
  }
  draft.toolConfig.tools = tools
  const single = body.parallel_tool_calls === false
  if (family === 'claude' && (never || single)) {
    draft.additional.tool_choice = never
      ? { type: 'none' }
      : { ...(choice ?? { type: 'auto' }), disable_parallel_tool_use: true }
    return
  }
  if (single) shaping.push('dropped parallel_tool_calls: the model has no counterpart')
  if (never) shaping.push('dropped tool_choice none: with tool calls in earlier messages tools must be declared')
  else if (choice !== null) draft.toolConfig.toolChoice = converseChoice(choice)
}

/**
 * Adds `outputConfig`, or the tool that carries the JSON answer. After `addTools`, and after the decision about
 * thinking.
 */
export const addFormat = (draft: Draft): void => {
  const { body, target, shaping } = draft
  const format = objectOf(body.response_format)
  if (format.type === 'json_object') shaping.push('dropped response_format json_object: the gateway checks the answer')
  else if (typeof format.type === 'string' && format.type !== 'json_schema' && format.type !== 'text')
    shaping.push('dropped response_format: this provider has no format of this type')
  if (format.type !== 'json_schema') return
  const { schema, name, description } = objectOf(format.json_schema)
  if (!isObject(schema)) throw refuse('json_schema needs a schema', 'response_format.json_schema.schema')
  if (takesSchemas(target)) {
    const jsonSchema = {
      schema: JSON.stringify(schemaSubset(schema, draft.note)),
      ...(typeof name === 'string' ? { name } : {}),
      ...(typeof description === 'string' ? { description } : {}),
    }
    draft.outputConfig.textFormat = { type: 'json_schema', structure: { jsonSchema } }
    return
  }
  if (arrayOf(body.tools).length > 0)
    throw refuse('this model cannot combine tools with a JSON schema', 'response_format')
  const forced = !draft.thinks && !refusesForcedTools(target)
  draft.toolConfig.tools = [...arrayOf(draft.toolConfig.tools), toolSpec(JSON_TOOL, 'Gives the answer.', schema)]
  delete draft.additional.tool_choice
  if (forced) draft.toolConfig.toolChoice = { tool: { name: JSON_TOOL } }
  shaping.push(`response_format json_schema as a ${forced ? 'forced ' : ''}tool`)
}
