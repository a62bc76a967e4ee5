// Tool declarations of a request: checked before routing, so that a typing mistake costs no upstream call.
import { GatewayError } from '../../wire/errors.ts'
import { isObject } from '../../wire/json.ts'

const MAX_TOOLS = 1_024
const NAME = /^[A-Za-z0-9_.:-]{1,128}$/

const bad = (message: string, param: string): GatewayError => new GatewayError('invalid_request', message, { param })

/** The fields that require the capability `tools`. */
export type ToolsField = 'tools' | 'functions' | 'tool_choice' | 'function_call' | 'parallel_tool_calls'

const isPresent = (value: unknown): boolean => value !== undefined && value !== null

/**
 * Checks all fields about tools; returns the field that requires the capability, or null. An empty list requires
 * nothing.
 */
export const checkTools = (body: Readonly<Record<string, unknown>>): ToolsField | null => {
  const { tools, functions, tool_choice, function_call, parallel_tool_calls } = body
  const names = isPresent(tools) ? declaredNames(tools, 'tools', nameOf) : null
  const older = isPresent(functions) ? declaredNames(functions, 'functions', functionName) : null
  const count = Array.isArray(tools) ? tools.length : 0
  if (isPresent(tool_choice)) checkChoice(tool_choice, names, count)
  if (isPresent(function_call)) checkCall(function_call, older)
  if (isPresent(parallel_tool_calls) && typeof parallel_tool_calls !== 'boolean') {
    throw bad('`parallel_tool_calls` must be true or false', 'parallel_tool_calls')
  }
  if (count > 0) return 'tools'
  if (older !== null && older.size > 0) return 'functions'
  if (isPresent(tool_choice)) return 'tool_choice'
  if (isPresent(function_call)) return 'function_call'
  // False asks nothing of a model.
  return parallel_tool_calls === true ? 'parallel_tool_calls' : null
}

const declaredNames = (
  declared: unknown,
  field: string,
  nameIn: (item: unknown, at: string) => string | null,
): Set<string> => {
  if (!Array.isArray(declared)) throw bad(`\`${field}\` must be an array`, field)
  if (declared.length > MAX_TOOLS) throw bad(`at most ${MAX_TOOLS} tools can be declared`, field)
  const names = new Set<string>()
  for (let i = 0; i < declared.length; i++) {
    const name = nameIn(declared[i], `${field}[${i}]`)
    if (name === null) continue
    if (names.has(name)) throw bad(`the tool "${name}" is declared twice`, `${field}[${i}]`)
    names.add(name)
  }
  return names
}

/** The declared name; null for the provider's own tools (`{"type": "web_search"}`), which are passed through. */
const nameOf = (tool: unknown, at: string): string | null => {
  if (!isObject(tool)) throw bad(`${at} must be an object`, at)
  const { type } = tool
  if (typeof type !== 'string' || type === '') {
    const named = isObject(tool.function) ? shown(tool.function.name) : ''
    throw bad(`${at}.type${named} must be "function"`, `${at}.type`)
  }
  if (type !== 'function' && type !== 'custom') return null
  const declaration = tool[type]
  if (!isObject(declaration)) throw bad(`${at} has no \`${type}\` object`, `${at}.${type}`)
  return functionName(declaration, `${at}.${type}`)
}

const functionName = (declaration: unknown, at: string): string => {
  if (!isObject(declaration)) throw bad(`${at} must be an object`, at)
  const { name, description, parameters, strict } = declaration
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw bad(`${at}.name${shown(name)} must be 1 to 128 letters, digits, "_", "-", "." or ":"`, `${at}.name`)
  }
  if (isPresent(description) && typeof description !== 'string') {
    throw bad(`the description of the tool "${name}" must be a string`, `${at}.description`)
  }
  if (isPresent(parameters)) checkParameters(name, parameters, `${at}.parameters`)
  if (isPresent(strict) && typeof strict !== 'boolean') {
    throw bad(`\`strict\` of the tool "${name}" must be true or false`, `${at}.strict`)
  }
  return name
}

/** An invalid name, as far as it can be shown. */
const shown = (name: unknown): string => (typeof name === 'string' ? ` (${JSON.stringify(name.slice(0, 64))})` : '')

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

const checkChoice = (choice: unknown, names: Set<string> | null, count: number): void => {
  if (typeof choice === 'string') {
    if (!MODES.includes(choice))
      throw bad('`tool_choice` must be "none", "auto", "required" or name a tool', 'tool_choice')
    if (choice === 'required' && count === 0) {
      throw bad('`tool_choice` is "required", but no tools are declared', 'tool_choice')
    }
    return
  }
  if (!isObject(choice)) throw bad('`tool_choice` must be a string or an object', 'tool_choice')
  const { type } = choice
  if (type === 'allowed_tools') checkAllowed(choice.allowed_tools, names)
  else if (type === 'function' || type === 'custom') checkNamed(choice, type, 'tool_choice', names)
}

/** `{"type": "function", "function": {"name"}}` must name a declared tool. */
const checkNamed = (choice: Record<string, unknown>, type: string, at: string, names: Set<string> | null): void => {
  const target = choice[type]
  const name = isObject(target) ? target.name : undefined
  requireDeclared(name, `${at}.${type}.name`, 'tool_choice', names)
}

const checkAllowed = (allowed: unknown, names: Set<string> | null): void => {
  const at = 'tool_choice.allowed_tools'
  if (!isObject(allowed)) throw bad(`\`${at}\` must be an object`, at)
  if (!Array.isArray(allowed.tools)) throw bad(`\`${at}.tools\` must be an array`, `${at}.tools`)
  for (let i = 0; i < allowed.tools.length; i++) {
    const tool: unknown = allowed.tools[i]
    if (!isObject(tool)) throw bad(`\`${at}.tools[${i}]\` must be an object`, `${at}.tools[${i}]`)
    if (tool.type === 'function' || tool.type === 'custom') checkNamed(tool, tool.type, `${at}.tools[${i}]`, names)
  }
}

/** `function_call`, the older spelling of `tool_choice`. */
const checkCall = (call: unknown, names: Set<string> | null): void => {
  if (call === 'none' || call === 'auto') return
  if (!isObject(call)) throw bad('`function_call` must be "none", "auto" or name a function', 'function_call')
  requireDeclared(call.name, 'function_call.name', 'function_call', names)
}

const requireDeclared = (name: unknown, at: string, field: string, names: Set<string> | null): void => {
  if (typeof name !== 'string') throw bad(`\`${at}\` must be a string`, at)
  if (names === null || !names.has(name))
    throw bad(`\`${field}\` names the tool ${JSON.stringify(name.slice(0, 128))}, which is not declared`, at)
}
