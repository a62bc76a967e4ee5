// Tool declarations of a request: checked before routing, so that a typing mistake costs no upstream call.
import { GatewayError } from '../wire/errors.ts'
import { isObject } from '../wire/json.ts'

const MAX_TOOLS = 1_024
const NAME = /^[A-Za-z0-9_.:-]{1,128}$/

const bad = (message: string, param: string): GatewayError => new GatewayError('invalid_request', message, { param })

/** Checks `tools` and `tool_choice`; answers whether the request uses tools at all. */
export const checkTools = (body: Readonly<Record<string, unknown>>): boolean => {
  const names = body.tools === undefined || body.tools === null ? null : declaredNames(body.tools)
  if (body.tool_choice !== undefined && body.tool_choice !== null) checkChoice(body.tool_choice, names)
  const parallel = body.parallel_tool_calls
  if (parallel !== undefined && parallel !== null && typeof parallel !== 'boolean') {
    throw bad('`parallel_tool_calls` must be true or false', 'parallel_tool_calls')
  }
  return (names !== null && names.size > 0) || (Array.isArray(body.functions) && body.functions.length > 0)
}

const declaredNames = (tools: unknown): Set<string> => {
  if (!Array.isArray(tools)) throw bad('`tools` must be an array', 'tools')
  if (tools.length > MAX_TOOLS) throw bad(`at most ${MAX_TOOLS} tools can be declared`, 'tools')
  const names = new Set<string>()
  for (let i = 0; i < tools.length; i++) {
    const name = nameOf(tools[i], `tools[${i}]`)
    if (name === null) continue
    if (names.has(name)) throw bad(`the tool "${name}" is declared twice`, `tools[${i}]`)
    names.add(name)
  }
  return names
}

/** The declared name; null for tools that are the provider's own (`{"type": "web_search"}`): they are passed through. */
const nameOf = (tool: unknown, at: string): string | null => {
  if (!isObject(tool)) throw bad(`${at} must be an object`, at)
  if (typeof tool.type !== 'string' || tool.type === '') throw bad(`${at}.type must be "function"`, `${at}.type`)
  if (tool.type !== 'function' && tool.type !== 'custom') return null
  const declaration = tool[tool.type]
  if (!isObject(declaration)) throw bad(`${at} has no \`${tool.type}\` object`, `${at}.${tool.type}`)
  const { name, description, parameters, strict } = declaration
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw bad(`${at} needs a name of 1 to 128 letters, digits, "_", "-", "." or ":"`, `${at}.${tool.type}.name`)
  }
  const member = `${at}.${tool.type}`
  if (description !== undefined && description !== null && typeof description !== 'string') {
    throw bad(`the description of the tool "${name}" must be a string`, `${member}.description`)
  }
  if (parameters !== undefined && parameters !== null) checkParameters(name, parameters, `${member}.parameters`)
  if (strict !== undefined && strict !== null && typeof strict !== 'boolean') {
    throw bad(`\`strict\` of the tool "${name}" must be true or false`, `${member}.strict`)
  }
  return name
}

const checkParameters = (tool: string, parameters: unknown, at: string): void => {
  if (!isObject(parameters)) throw bad(`the parameters of the tool "${tool}" must be a JSON Schema object`, at)
  const { type, properties, required } = parameters
  if (type !== undefined && type !== 'object') {
    throw bad(`the parameters of the tool "${tool}" must be of type "object"`, `${at}.type`)
  }
  if (properties !== undefined && !isObject(properties)) {
    throw bad(`\`properties\` of the tool "${tool}" must be an object`, `${at}.properties`)
  }
  if (required !== undefined && !(Array.isArray(required) && required.every((item) => typeof item === 'string'))) {
    throw bad(`\`required\` of the tool "${tool}" must be a list of names`, `${at}.required`)
  }
}

const MODES = ['none', 'auto', 'required']

const checkChoice = (choice: unknown, names: Set<string> | null): void => {
  if (typeof choice === 'string') {
    if (!MODES.includes(choice))
      throw bad('`tool_choice` must be "none", "auto", "required" or name a tool', 'tool_choice')
    if (choice === 'required' && (names === null || names.size === 0)) {
      throw bad('`tool_choice` is "required", but no tools are declared', 'tool_choice')
    }
    return
  }
  if (!isObject(choice)) throw bad('`tool_choice` must be a string or an object', 'tool_choice')
  if (choice.type !== 'function' && choice.type !== 'custom') return
  const target = choice[choice.type]
  const name = isObject(target) ? target.name : undefined
  const at = `tool_choice.${choice.type}.name`
  if (typeof name !== 'string') throw bad(`\`${at}\` must be a string`, at)
  if (names === null || !names.has(name))
    throw bad(`\`tool_choice\` names the tool "${name}", which is not declared`, at)
}
